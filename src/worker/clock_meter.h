// SPDX-License-Identifier: Apache-2.0
// The processors' clock over a stretch of a batch: cycles and nanoseconds read by a small kernel before and after it, on
// every multiprocessor. Not here: what a management library says of clocks (observer.h).
#pragma once
#include <optional>

#include "worker/gpu.h"

namespace klab::worker {

class ClockMeter {
 public:
  /// Empty where the API has no such kernel ("clock" of kernels/).
  static Result<std::optional<ClockMeter>> create(Gpu& gpu);
  /// `end` 0: the stretch begins; 1: it ends.
  void append(std::vector<gpu::Step>& steps, int end) const;
  /// MHz between the last two readings: the median over multiprocessors. Empty when they cannot be told.
  Result<std::optional<double>> read();

 private:
  Gpu* gpu_ = nullptr;
  Memory readings_;
  Launch launches_[2];
};

}  // namespace klab::worker
