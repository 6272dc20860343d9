// SPDX-License-Identifier: Apache-2.0
// How a front end does anything: calls by name, through the per-user hub or inside this process.
// Not here: what the verbs do (ops/api.h).
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/json.h"

namespace klab::hub {

struct Progress {
  std::string line;
  std::uint64_t done = 0, total = 0;
  unsigned place = 0;  // in the device's queue; 0: not waiting
};
using OnProgress = std::function<void(const Progress&)>;

/// Besides those of ops/api.h there are the verbs of the hub itself:
///   job.start  {verb, arguments, session?}   -> {job}: the work goes on when the caller leaves
///   job.wait   {job, wait_s}                 -> {job: JobRow, progress}: at its end, or when wait_s have
///   passed
///   job.cancel {job}                         -> {job: JobRow}: returns when the work has stopped
///   events.wait {session?, after, wait_s, limit} -> {events: [EventRow], last}: as soon as there is one; after -1: from
///   now on
///   hub.status, hub.stop {force}
/// Thread: any; calls of several threads run at once.
class Client {
 public:
  struct Options {
    bool alone = false;             // --no-hub: the same work inside this process
    std::string front_end = "cli";  // "cli", "mcp", "page"
    bool start = true;              // start a hub when none runs
  };
  explicit Client(Options options);
  ~Client();

  /// The answer of one verb. `cancelled` is polled; when it turns true the work is stopped and the call ends
  /// with interrupted. Errors: those of the verb; environment when no hub can be started or reached.
  Result<Json> call(const std::string& verb, const Json& arguments, const OnProgress& progress = {},
                    const std::function<bool()>& cancelled = {});

  /// While the result lives no other GPU work of this user's hub starts: for a program that is run here to be
  /// traced or captured. Empty when there is no hub. Errors: interrupted.
  Result<std::shared_ptr<void>> hold(const OnProgress& progress = {},
                                     const std::function<bool()>& cancelled = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace klab::hub
