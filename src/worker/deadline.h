// SPDX-License-Identifier: Apache-2.0
// The wall time that one request may take.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>

#include <fmt/format.h>

#include "base/error.h"

namespace klab::worker {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Deadline(double seconds)
      : budget_s_(seconds),
        end_(Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                std::chrono::duration<double>(std::clamp(seconds, 0.0, 1e6)))) {}
  double left_s() const { return std::chrono::duration<double>(end_ - Clock::now()).count(); }
  /// For one batch: what is left, at most `cap_s`, at least a millisecond.
  std::uint64_t timeout_ns(double cap_s) const {
    return static_cast<std::uint64_t>(std::clamp(std::min(left_s(), cap_s), 1e-3, 1e6) * 1e9);
  }
  /// Time that was spent waiting for others is not the request's.
  void leave_out(Clock::duration waited) { end_ += waited; }
  /// Errors: timeout, when it has passed.
  Status check(const char* doing) const {
    if (left_s() > 0) return {};
    return fail(ErrorCode::timeout, fmt::format("the budget of {:g} s was spent while {}", budget_s_, doing),
                "ask for fewer iterations, or a larger --budget");
  }

 private:
  double budget_s_;
  Clock::time_point end_;
};

}  // namespace klab::worker
