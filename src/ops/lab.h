// SPDX-License-Identifier: Apache-2.0
// What every operation needs: where things are kept, the store, the worker, how to report and to be stopped.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/files.h"
#include "bundle/reader.h"
#include "compile/client.h"
#include "replay/worker.h"
#include "session/store.h"

namespace klab::ops {

/// Who runs workers and compilers for a Lab. A Lab without one keeps a worker and a compiler of its own, warm for its
/// life; in the hub they come from pools, and a request waits in the queue of its device (hub/pool.h).
class Engines {
 public:
  virtual ~Engines() = default;
  /// As replay::Worker::ask. `on_wait` hears the place in the device's queue when it changes, 1 being next.
  virtual Result<replay::Answer> ask(const replay::Request& request, const replay::OnProgress& progress,
                                     const std::function<bool()>& cancelled,
                                     const std::function<void(unsigned place)>& on_wait) = 0;
  /// Lent until this object ends.
  virtual compile::Compiler& compiler() = 0;

  /// While it lives no other GPU work of this user's hub starts, on any device; what the same Engines ask is not held
  /// up. For programs that are run to be traced or captured: their device is not known before. Alone: nothing.
  class Hold {
   public:
    virtual ~Hold() = default;
  };
  /// Errors: interrupted.
  virtual Result<std::unique_ptr<Hold>> hold(const std::string& /*what*/, const std::function<bool()>& /*cancelled*/,
                                             const std::function<void(unsigned place)>& /*on_wait*/) {
    return std::make_unique<Hold>();
  }
};

/// One user's laboratory for the length of a command, or of one call or job in the hub. Store and worker start when
/// first used, so that reading a bundle starts nothing. Thread: one.
class Lab {
 public:
  explicit Lab(std::unique_ptr<Engines> engines = nullptr);
  ~Lab();

  fs::path home() const { return home_; }
  Result<session::Store*> store();
  /// Asks a worker, reporting its progress; waits for the device where it is shared.
  Result<replay::Answer> ask(const replay::Request& request);
  compile::Compiler& compiler() { return engines_->compiler(); }
  /// Takes the devices for a program of the user's that is about to run: Engines::hold.
  Result<std::unique_ptr<Engines::Hold>> hold(const std::string& what);

  /// Of whom the work is: programs are started with it (capture). Empty: ours.
  std::map<std::string, std::string> environment;
  /// The job row (session::Sessions) that this Lab works on; 0: none yet.
  std::int64_t job = 0;
  /// The session whose work this is: runs and verdicts carry it. Empty: none.
  std::string session;
  /// "cli", "mcp", "page": stands in a session's log beside what was done.
  std::string front_end = "cli";

  /// A line of progress for a person; may be empty. `done` of `total` steps when total is not 0.
  std::function<void(const std::string& line, std::uint64_t done, std::uint64_t total)> progress;
  /// Polled by long work.
  std::function<bool()> cancelled;
  void say(const std::string& line) const {
    if (progress) progress(line, 0, 0);
  }
  /// What a capture or a worker reports, passed on.
  std::function<void(const std::string&)> line_progress() const {
    return [this](const std::string& line) { say(line); };
  }

 private:
  fs::path home_;
  std::unique_ptr<session::Store> store_;
  std::unique_ptr<Engines> engines_;
};

/// An opened bundle and its row in the store.
struct OpenBundle {
  bundle::Reader reader;
  std::string id;
  const bundle::Dispatch& dispatch(std::uint32_t index) const { return reader.manifest().dispatches[index]; }
};

/// Identity of what was captured: code, chunks and time, not where it lies or what its proof said.
std::string bundle_id(const bundle::Manifest& manifest);

/// `path` may omit ".klab". Errors: not_found (with bundles nearby as hint), those of Reader::open.
Result<OpenBundle> open_bundle(const fs::path& path);
/// Also notes the bundle in the store.
Result<OpenBundle> open_bundle(Lab& lab, const fs::path& path);
/// An error of reading a bundle, with one thing to try where the reader had none.
Error damaged(Error error, const fs::path& bundle);
/// Errors: not_found when the bundle has no dispatch of that number.
Status check_dispatch(const OpenBundle& bundle, std::uint32_t dispatch);

}  // namespace klab::ops
