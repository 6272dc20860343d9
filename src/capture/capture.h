// SPDX-License-Identifier: Apache-2.0
// Starts the target with a shim, and turns what the shim sends into a dispatch list or a sealed bundle.
// Not here: the proof replay (ops/).
#pragma once
#include <chrono>
#include <functional>
#include <optional>

#include "base/error.h"
#include "base/files.h"
#include "bundle/writer.h"
#include "import/dispatch_list.h"

namespace klab::capture {

struct Target {
  std::vector<std::string> argv;
  fs::path working_folder;  // empty: ours
  std::map<std::string, std::optional<std::string>> environment;
  std::chrono::milliseconds limit = std::chrono::minutes(10);  // then the target is ended: timeout
  bool quiet = false;  // target's stdout goes to stderr unless quiet, then it is dropped
  int output = -1;     // when set: the target's stdout and stderr go there, and it has no input
};

using OnProgress = std::function<void(const std::string& line)>;
using Cancelled = std::function<bool()>;

/// Runs the target in trace mode to its end.
/// Errors: target_failed (could not start; died by a signal: the list so far is lost only when empty),
/// environment (no layer, no Vulkan loader), timeout, interrupted.
Result<import::DispatchList> trace(const Target& target, const OnProgress& progress = {},
                                   const Cancelled& cancelled = {});

struct CaptureRequest {
  Target target;
  std::string kernel;                 // POSIX extended regex on the listed name, or a pipeline hash prefix
  std::vector<std::uint64_t> nth{1};  // executions of that kernel to take, ascending, from 1
  bundle::Scope scope = bundle::Scope::reachable;
  std::uint64_t max_bytes = 0;  // 0: what is free at the destination less 1 GiB
  std::chrono::milliseconds drain_deadline{10000};
  bool stop_after_capture = false;  // else the program goes on to its normal end
  fs::path bundle;                  // NAME.klab
  bool replace = false;
  bool preview = false;  // only find out how much would be captured; no bundle is made
};

struct Captured {
  bundle::Writer::Sealed sealed;     // empty after a preview
  std::uint64_t captured_bytes = 0;  // pre-state of all regions
  std::string kernel;                // of a preview
  std::size_t dispatches = 0;
  double shim_ms = 0;  // time that the target waited for us
  int target_exit = 0;
  std::vector<std::string> warnings;
};

/// Errors: no_such_kernel (hint: nearest names; also when fewer than n executions came), capture_refused
/// (what it uses, by name), cap_reached (size preview over max_bytes; says the size), target_failed, timeout,
/// disk_full, environment, interrupted. On error no bundle is left.
Result<Captured> capture(const CaptureRequest& request, const OnProgress& progress = {},
                         const Cancelled& cancelled = {});

}  // namespace klab::capture
