// SPDX-License-Identifier: Apache-2.0
// What every operation needs: where things are kept, the store, the worker, how to report and to be stopped.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/files.h"
#include "bundle/reader.h"
#include "compile/client.h"
#include "replay/worker.h"
#include "session/store.h"

namespace klab::ops {

/// One user's laboratory for the length of a command (later: of the hub). Store and worker start when first
/// used, so that reading a bundle starts nothing. Thread: one.
class Lab {
 public:
  Lab();
  ~Lab();

  fs::path home() const { return home_; }
  Result<session::Store*> store();
  replay::Worker& worker();
  compile::Compiler& compiler();

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
  replay::OnProgress worker_progress() const {
    return [this](const replay::Progress& p) {
      if (progress) progress(p.text, p.done, p.total);
    };
  }

 private:
  fs::path home_;
  std::unique_ptr<session::Store> store_;
  std::unique_ptr<replay::Worker> worker_;
  compile::Compiler compiler_;
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
