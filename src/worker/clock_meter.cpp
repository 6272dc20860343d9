// SPDX-License-Identifier: Apache-2.0
#include "worker/clock_meter.h"

#include <algorithm>
#include <array>

#include "kernels/kernels.h"

namespace klab::worker {

using Readings = std::array<kernels::ClockReading, kernels::kClockProcessors>;

Result<std::optional<ClockMeter>> ClockMeter::create(Gpu& gpu) {
  if (gpu->builtin_kernel("clock").empty()) return std::optional<ClockMeter>();
  ClockMeter meter;
  meter.gpu_ = &gpu;
  KLAB_TRY(meter.readings_, gpu.allocate(2 * sizeof(Readings)));
  for (std::uint32_t end = 0; end < 2; ++end) {
    const kernels::ClockPush push{end * kernels::kClockProcessors};
    const BuiltinBinding binding{meter.readings_.id(), 0, 2 * sizeof(Readings)};
    KLAB_TRY(meter.launches_[end], gpu.builtin("clock", std::span(&binding, 1), std::as_bytes(std::span(&push, 1)),
                                               {kernels::kClockBlocks, 1, 1}));
  }
  return std::optional<ClockMeter>(std::move(meter));
}

void ClockMeter::append(std::vector<gpu::Step>& steps, int end) const {
  steps.push_back(gpu::Step::fill_of(readings_.id(), static_cast<std::uint64_t>(end) * sizeof(Readings), sizeof(Readings), 0));
  steps.push_back(gpu::Step::launch_of(launches_[end].id(), false));
}

Result<std::optional<double>> ClockMeter::read() {
  std::array<Readings, 2> at;
  KLAB_TRY_VOID((*gpu_)->download(readings_.id(), 0, std::as_writable_bytes(std::span(at))));
  std::vector<double> mhz;
  for (std::size_t i = 0; i < at[0].size(); ++i) {
    const auto &from = at[0][i], &to = at[1][i];
    if (from.nanoseconds == 0 || to.nanoseconds <= from.nanoseconds || to.cycles <= from.cycles) continue;
    mhz.push_back(static_cast<double>(to.cycles - from.cycles) / static_cast<double>(to.nanoseconds - from.nanoseconds) * 1e3);
  }
  if (mhz.empty()) return std::optional<double>();
  std::nth_element(mhz.begin(), mhz.begin() + static_cast<std::ptrdiff_t>(mhz.size() / 2), mhz.end());
  return std::optional<double>(mhz[mhz.size() / 2]);
}

}  // namespace klab::worker
