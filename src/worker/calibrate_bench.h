// SPDX-License-Identifier: Apache-2.0
// What the benchmarks of a calibration share: launching one of its kernels, sampling it, writing down a figure.
#pragma once
#include <optional>
#include <vector>

#include "kernels/calibration.h"
#include "kernels/kernels.h"
#include "worker/calibrate.h"
#include "worker/clock_meter.h"

namespace klab::worker {

/// One way to launch a kernel, timed.
struct Attempt {
  std::string config;  // "264 blocks of 1024 threads"
  double work = 0;     // bytes or operations of one launch
  std::vector<double> ns;
  std::optional<double> clock_mhz;  // of the multiprocessors while it ran, where they tell
  double median_rate() const;  // work per nanosecond: GB/s, GFLOP/s
};

class Bench {
 public:
  Bench(Gpu& gpu, const Deadline& deadline, OnStep on_step);

  Gpu& gpu() { return gpu_; }
  bool is_cpu() const { return cpu_; }
  /// Blocks have the size that the launch says; else they have kernels::kThreads.
  bool chooses_block() const { return chooses_block_; }
  /// Multiprocessors; where they are not known a number that fills any GPU, or the CPU's cores.
  std::uint32_t units() const { return units_; }
  /// Wall time for all samples of one configuration.
  double budget_s() const { return cpu_ ? 0.1 : 0.03; }

  /// A launch of `kernel` over `arrays` and out[].
  template <class Push>
  Result<Launch> prepare(const kernels::CalibrationKernel& kernel, std::span<const BuiltinBinding> arrays,
                         const Push& push, std::uint32_t grid, std::uint32_t block) {
    return prepare(kernel, arrays, std::as_bytes(std::span(&push, 1)), grid, block);
  }
  /// What the kernel is on this device. Errors: unsupported, when it has no such instructions.
  Result<kernels::CalibrationFacts> facts(const kernels::CalibrationKernel& kernel,
                                          std::span<const BuiltinBinding> arrays);
  /// Warms up, then times at least five launches back to back, more within the budget; the clock is that of these.
  Status sample(gpu::LaunchId launch, double budget_s, Attempt& into, std::uint32_t at_least = 5);
  /// `count` launches back to back; the clock is that of the second half.
  Status sample_many(gpu::LaunchId launch, std::size_t count, Attempt& into);
  /// Device time of one launch, after one to warm up.
  Result<double> once(gpu::LaunchId launch);
  Result<gpu::BatchResult> run(std::span<const gpu::Step> steps);

  void step(const std::string& what);
  /// Writes down the best of `attempts` with the others as "tried". `more` is merged into it.
  void note(const kernels::CalibrationKernel& kernel, const std::string& unit, std::vector<Attempt> attempts,
            Json more = Json::object());
  void add_figure(Json figure) { figures_.push_back(std::move(figure)); }
  void add_note(std::string text) { notes_.push_back(std::move(text)); }
  /// A figure that cannot be had; a lost device or a spent budget is an error still.
  Status missing(const std::string& name, const Error& error);
  Json answer() &&;

  gpu::MemoryId out() const { return out_.id(); }
  Status start();

 private:
  Status timed(gpu::LaunchId launch, std::size_t clock_from, std::size_t count, Attempt& into);
  Result<Launch> prepare(const kernels::CalibrationKernel& kernel, std::span<const BuiltinBinding> arrays,
                         std::span<const std::byte> push, std::uint32_t grid, std::uint32_t block);

  Gpu& gpu_;
  const Deadline& deadline_;
  OnStep on_step_;
  Memory out_;
  bool cpu_ = false, chooses_block_ = false;
  std::uint32_t units_ = 0, steps_ = 0;
  std::optional<ClockMeter> clock_;
  Json figures_ = Json::array(), missing_ = Json::array(), notes_ = Json::array();
};

/// "fp32", "matrix bf16 (wgmma)", "copy by 16 bytes".
std::string title(const kernels::CalibrationKernel& kernel);

Status calibrate_memory(Bench& bench);
Status calibrate_compute(Bench& bench);
Status calibrate_launches(Bench& bench);

}  // namespace klab::worker
