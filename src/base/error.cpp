// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

namespace klab {
namespace {

struct Row {
  ErrorCode code;
  std::string_view name;
  int exit;
};

// Exit codes: 1 no code of its own, 2 usage, 3 differs, 6 environment, 7 build, 8 replay, 9 target or
// capture, 10 cap, 70 our bug, 130 interrupted.
constexpr Row kRows[] = {
    {ErrorCode::internal, "internal", 70},
    {ErrorCode::usage, "usage", 2},
    {ErrorCode::not_found, "not_found", 1},
    {ErrorCode::io_failed, "io_failed", 1},
    {ErrorCode::disk_full, "disk_full", 1},
    {ErrorCode::invalid_data, "invalid_data", 1},
    {ErrorCode::bundle_corrupt, "bundle_corrupt", 1},
    {ErrorCode::bundle_version, "bundle_version", 1},
    {ErrorCode::cap_reached, "cap_reached", 10},
    {ErrorCode::environment, "environment", 6},
    {ErrorCode::no_device, "no_device", 6},
    {ErrorCode::unsupported, "unsupported", 1},
    {ErrorCode::no_such_kernel, "no_such_kernel", 9},
    {ErrorCode::target_failed, "target_failed", 9},
    {ErrorCode::capture_refused, "capture_refused", 9},
    {ErrorCode::compile_failed, "compile_failed", 7},
    {ErrorCode::missing_symbol, "missing_symbol", 7},
    {ErrorCode::launch_failed, "launch_failed", 8},
    {ErrorCode::device_fault, "device_fault", 8},
    {ErrorCode::timeout, "timeout", 8},
    {ErrorCode::out_of_memory, "out_of_memory", 8},
    {ErrorCode::worker_lost, "worker_lost", 8},
    {ErrorCode::address_collision, "address_collision", 8},
    {ErrorCode::not_correct, "not_correct", 3},
    {ErrorCode::source_changed, "source_changed", 1},
    {ErrorCode::store_failed, "store_failed", 1},
    {ErrorCode::interrupted, "interrupted", 130},
    {ErrorCode::mode_mismatch, "mode_mismatch", 1},
    {ErrorCode::illegal_state, "illegal_state", 1},
    {ErrorCode::not_allowed, "not_allowed", 1},
};

}  // namespace

std::string_view to_string(ErrorCode code) {
  for (const Row& row : kRows)
    if (row.code == code) return row.name;
  return "internal";
}

std::optional<ErrorCode> error_code_from(std::string_view name) {
  for (const Row& row : kRows)
    if (row.name == name) return row.code;
  return std::nullopt;
}

int exit_code(ErrorCode code) {
  for (const Row& row : kRows)
    if (row.code == code) return row.exit;
  return 70;
}

tl::unexpected<Error> fail_errno(int error_number, std::string what) {
  ErrorCode code = ErrorCode::io_failed;
  std::string hint;
  if (error_number == ENOSPC || error_number == EDQUOT) {
    code = ErrorCode::disk_full;
    hint = "free some space, or set KLAB_HOME to a folder on a larger disk";
  } else if (error_number == ENOENT) {
    code = ErrorCode::not_found;
  } else if (error_number == EACCES || error_number == EPERM) {
    hint = "check the permissions of that path";
  }
  return fail(code, fmt::format("{}: {}", what, std::strerror(error_number)), hint, error_number);
}

void check_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "klab: internal error: %s (%s:%d)\n", expression, file, line);
  std::abort();
}

}  // namespace klab
