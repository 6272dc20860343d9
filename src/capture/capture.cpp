// SPDX-License-Identifier: Apache-2.0
#include "capture/capture.h"

#include <regex.h>
#include <sys/statvfs.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/units.h"
#include "capture/collector.h"

namespace klab::capture {
namespace {

Status check(const CaptureRequest& request) {
  if (request.kernel.empty())
    return fail(ErrorCode::usage, "no kernel named", "list them with klab dispatches");
  if (request.kernel.size() > KLAB_MAX_TEXT)
    return fail(ErrorCode::usage, "the kernel's pattern is too long");
  regex_t expression;
  if (const int code = ::regcomp(&expression, request.kernel.c_str(), REG_EXTENDED | REG_NOSUB); code != 0) {
    char text[256];
    ::regerror(code, &expression, text, sizeof text);
    return fail(ErrorCode::usage, fmt::format("{} is not a regular expression: {}", request.kernel, text),
                "write a literal . [ ( * as \\. \\[ \\( \\*");
  }
  ::regfree(&expression);
  if (request.nth.empty() || request.nth.size() > KLAB_MAX_NTH || request.nth[0] == 0 ||
      !std::is_sorted(request.nth.begin(), request.nth.end()) ||
      std::adjacent_find(request.nth.begin(), request.nth.end()) != request.nth.end())
    return fail(ErrorCode::usage,
                fmt::format("executions are numbered from 1, ascending, at most {} of them", KLAB_MAX_NTH));
  return {};
}

std::uint64_t free_at(const fs::path& bundle) {
  fs::path folder = fs::absolute(bundle).parent_path();
  struct statvfs st {};
  while (::statvfs(folder.c_str(), &st) != 0 && folder.has_relative_path()) folder = folder.parent_path();
  return static_cast<std::uint64_t>(st.f_bavail) * st.f_frsize;
}

// Nothing was captured and nothing was refused: what did run, and what that means.
Error nothing_captured(const CaptureRequest& request, const Ended& ended, const Collector& collector) {
  std::vector<std::string> names;
  const KernelSeen* matched = nullptr;
  for (const auto& p : ended.processes)
    for (const auto& [id, k] : p->kernels) {
      if (std::find(names.begin(), names.end(), k.name) == names.end()) names.push_back(k.name);
      if (k.has_code && (matched == nullptr || k.executions > matched->executions)) matched = &k;
    }
  if (ended.status.signal != 0)
    return {ErrorCode::target_failed,
            fmt::format("{} {} before the wanted execution", request.target.argv[0], to_string(ended.status)),
            "run it without klab: does it end the same way?"};
  if (matched != nullptr)
    return {ErrorCode::no_such_kernel,
            fmt::format("{} ran {} time{}; execution {} was asked for", matched->name, matched->executions,
                        matched->executions == 1 ? "" : "s", request.nth.back()),
            fmt::format("ask for --nth {} or less", std::max<std::uint64_t>(matched->executions, 1))};
  if (ended.status.code != 0 && names.empty())
    return {ErrorCode::target_failed,
            fmt::format("{} {} before it had dispatched anything", request.target.argv[0],
                        to_string(ended.status)),
            "run it without klab: does it end the same way?"};
  if (ended.processes.empty())
    return {ErrorCode::no_such_kernel,
            fmt::format("{} ended without creating a Vulkan instance or initialising CUDA or HIP",
                        request.target.argv[0]),
            "check that the program uses Vulkan through the system's loader, CUDA or HIP, and that it is the program "
            "itself that does (klab doctor tells what klab has for each)"};
  if (names.empty() && !collector.warnings_.empty())  // the shim said why it sees nothing
    return {ErrorCode::environment, fmt::format("{}: {}", request.target.argv[0], collector.warnings_.front()),
            "klab doctor tells what is missing"};
  Error error{ErrorCode::no_such_kernel,
              fmt::format("no kernel of {} matches {}", request.target.argv[0], request.kernel),
              {}};
  const auto nearest = import::nearest_names(names, request.kernel);
  error.hint = names.empty() ? "it dispatched nothing" : fmt::format("nearest: {}", fmt::join(nearest, ", "));
  return error;
}

}  // namespace

Result<Captured> capture(const CaptureRequest& request, const OnProgress& progress,
                         const Cancelled& cancelled) {
  KLAB_TRY_VOID(check(request));
  // What a killed capture left beside this place.
  const fs::path beside = request.bundle.parent_path();
  bundle::sweep_partial(beside.empty() ? fs::path(".") : beside);
  KLAB_TRY(bundle::Writer writer, bundle::Writer::create(request.bundle, {.replace = request.replace}));
  // A disk that is nearly full keeps its last GiB; on one smaller than that, the disk itself is the limit.
  constexpr std::uint64_t kKept = 1ull << 30;
  const std::uint64_t free_bytes = free_at(request.bundle);
  const std::uint64_t max_bytes = request.max_bytes != 0   ? request.max_bytes
                                  : free_bytes > 2 * kKept ? free_bytes - kKept
                                                           : free_bytes;
  Collector collector(request, std::move(writer), max_bytes, free_bytes, progress);
  KLAB_TRY(const Ended ended,
           serve(request.target, collector, request.stop_after_capture, cancelled));
  if (collector.preview_bytes_) {
    Captured preview;
    preview.captured_bytes = *collector.preview_bytes_;
    preview.kernel = collector.preview_name_;
    preview.shim_ms = collector.waited_ms_;
    preview.target_exit = ended.status.signal != 0 ? 128 + ended.status.signal : ended.status.code;
    preview.warnings = collector.warnings_;
    return preview;
  }
  if (collector.error_) return fail(*collector.error_);
  if (!collector.sealed_) {
    Error error = nothing_captured(request, ended, collector);
    // A connection that broke explains more than what then did not come.
    if (!ended.warnings.empty()) error.what += fmt::format(" ({})", fmt::join(ended.warnings, "; "));
    return fail(std::move(error));
  }

  Captured captured;
  captured.sealed = *collector.sealed_;
  captured.captured_bytes = collector.captured_bytes_;
  captured.dispatches = collector.dispatches_;
  captured.shim_ms = collector.waited_ms_;
  captured.target_exit = ended.status.signal != 0 ? 128 + ended.status.signal : ended.status.code;
  captured.warnings = collector.warnings_;
  captured.warnings.insert(captured.warnings.end(), ended.warnings.begin(), ended.warnings.end());
  std::vector<std::string> matching;
  for (const auto& p : ended.processes)
    for (const auto& [id, k] : p->kernels)
      if (k.has_code && std::find(matching.begin(), matching.end(), k.name) == matching.end())
        matching.push_back(k.name);
  if (matching.size() > 1)
    captured.warnings.push_back(
        fmt::format("{} matches several kernels ({}); the first whose execution {} came was taken",
                    request.kernel, fmt::join(matching, ", "), request.nth[0]));
  if (captured.target_exit != 0 && !ended.by_us)
    captured.warnings.push_back(fmt::format("after the capture the program {}", to_string(ended.status)));
  return captured;
}

}  // namespace klab::capture
