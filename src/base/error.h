// SPDX-License-Identifier: Apache-2.0
// What can go wrong, and how it is told: what, why, and one thing to try.
// Not here: wrong answers of a variant (validate/verdict.h), which are results.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace klab {

/// Durable: names and numbers appear in JSON, logs and stores. Add, never alter.
enum class ErrorCode : std::uint16_t {
  internal = 1,          // a bug of ours
  usage = 2,             // bad arguments
  not_found = 3,         // a path, id or name that does not exist
  io_failed = 4,         // read, write, rename; `vendor` is errno
  disk_full = 5,         // ENOSPC or EDQUOT
  invalid_data = 6,      // foreign bytes that do not parse
  bundle_corrupt = 7,    // a stored hash disagrees; never retried
  bundle_version = 8,    // written by a newer format
  cap_reached = 9,       // a size, count or time cap of ours
  environment = 10,      // a tool, driver or permission is missing
  no_device = 11,        // no such GPU here
  unsupported = 12,      // a named feature that this backend or version does not have
  no_such_kernel = 13,   // nothing matched; the hint names the nearest
  target_failed = 14,    // the user's program crashed or could not start
  capture_refused = 15,  // the dispatch uses something that is not captured yet, or did not drain
  compile_failed = 16,   // compiler diagnostics in `what`
  missing_symbol = 17,   // the code object has no such entry point
  launch_failed = 18,    // the driver refused the launch
  device_fault = 19,     // device lost, memory fault
  timeout = 20,          // a dispatch, worker or tool ran past its budget
  out_of_memory = 21,    // device or host memory
  worker_lost = 22,      // the worker process died without an answer
  address_collision =
      23,               // a captured virtual address is taken in this process; the worker re-executes itself
  not_correct = 24,     // save without a `correct` verdict
  source_changed = 25,  // the file differs from what was read
  store_failed = 26,    // SQLite; `vendor` is its code
  interrupted = 27,     // SIGINT
  mode_mismatch = 28,   // the mode that ran is not the one asked for
  illegal_state = 29,   // a move that the session's state does not allow
  not_allowed = 30,     // a path or program that the user did not allow
};

std::string_view to_string(ErrorCode code);
/// The inverse of to_string; empty for an unknown name.
std::optional<ErrorCode> error_code_from(std::string_view name);

struct Error {
  ErrorCode code = ErrorCode::internal;
  std::string what;  // "chunk 7 is 4096 bytes, the manifest says 8192"
  std::string hint;  // one command or step to try, or empty
  int vendor = 0;    // the driver's or system's own number, if any
};

template <class T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

inline tl::unexpected<Error> fail(ErrorCode code, std::string what, std::string hint = {}, int vendor = 0) {
  return tl::unexpected<Error>(Error{code, std::move(what), std::move(hint), vendor});
}
inline tl::unexpected<Error> fail(Error error) { return tl::unexpected<Error>(std::move(error)); }
/// From errno: io_failed, disk_full for ENOSPC and EDQUOT, not_found for ENOENT.
tl::unexpected<Error> fail_errno(int error_number, std::string what);

/// Process exit codes, as README lists them.
int exit_code(ErrorCode code);

/// Prints and aborts: for states that only a bug of ours can reach.
[[noreturn]] void check_failed(const char* expression, const char* file, int line);

}  // namespace klab

#define KLAB_CHECK(expression) \
  ((expression) ? static_cast<void>(0) : ::klab::check_failed(#expression, __FILE__, __LINE__))

#define KLAB_CONCAT_(a, b) a##b
#define KLAB_CONCAT(a, b) KLAB_CONCAT_(a, b)
/// Returns the error of a Status or Result from the enclosing function.
#define KLAB_TRY_VOID(expression)                           \
  do {                                                      \
    if (auto klab_status_ = (expression); !klab_status_)    \
      return ::klab::fail(std::move(klab_status_.error())); \
  } while (false)
/// `KLAB_TRY(auto x, f());` binds the value or returns the error.
#define KLAB_TRY(declaration, expression)                                        \
  auto KLAB_CONCAT(klab_result_, __LINE__) = (expression);                       \
  if (!KLAB_CONCAT(klab_result_, __LINE__))                                      \
    return ::klab::fail(std::move(KLAB_CONCAT(klab_result_, __LINE__).error())); \
  declaration = std::move(*KLAB_CONCAT(klab_result_, __LINE__))
