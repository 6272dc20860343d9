// SPDX-License-Identifier: Apache-2.0
// Timed launches under stated conditions, restored before and checked after.
// Not here: what the numbers mean (measure/).
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "worker/clock_meter.h"
#include "worker/outcome_check.h"
#include "worker/restore.h"
#include "worker/rotation.h"
#include "worker/variant.h"

namespace klab::worker {

using OnDone = std::function<void(std::uint64_t done, std::uint64_t total)>;

/// One variant among those timed together.
struct Timed {
  const Variant* variant = nullptr;
  std::vector<double> samples_ns;
  const OutcomeCheck* check = nullptr;  // of what it leaves; nullptr: not checked
  std::uint32_t launches_checked = 0;
  std::string wrong_launch;  // first checked launch that was wrong; empty: none
};

struct TimingSetup {
  Loaded* loaded = nullptr;
  const Restorer* restorer = nullptr;
  ChunkList restored;                        // chunks of the restorer: all others are checked to be untouched
  std::size_t first_image = 0;               // images used in turn: first_image .. restorer->images()-1
  bool every_launch = false;                 // is checked; else first, last and three at random
  std::uint64_t flush_bytes = 0;             // written before each launch; 0: caches stay as they are
  const Rotation* rotation = nullptr;        // launches take turns on its copies; only those on the capture's own place are checked
  std::uint32_t seed = 1;
  double warmed_ns = 0;  // wall time of the device's work just before
  OnDone progress;
};

struct TimingFacts {
  std::string outside;  // a chunk that nobody should have written changed; empty: none
  std::string inconsistent;  // device time, wall time and number of launches do not fit together; empty: they do
};

/// Isolated: each launch is restored, flushed and timed on its own. `order`: which of `timed` runs, launch by
/// launch. Errors: those of running; timeout also when the budget is spent.
Result<TimingFacts> time_isolated(const TimingSetup& setup, std::vector<Timed>& timed,
                                  const std::vector<std::uint32_t>& order, const Deadline& deadline);

/// Sustained: after one restoring, each run of equal entries of `order` goes back to back.
Result<TimingFacts> time_sustained(const TimingSetup& setup, std::vector<Timed>& timed,
                                   const std::vector<std::uint32_t>& order, const Deadline& deadline);

/// The letters of a comparison, one after the other, in one placement.
class LetterTimer {
 public:
  /// `setup` and `timed` must outlive it. `sustained`: the launches of a letter go back to back after one restoring.
  /// `clock` may be nullptr.
  static Result<LetterTimer> create(const TimingSetup& setup, std::vector<Timed>& timed, bool sustained, ClockMeter* clock,
                                    const Deadline& deadline);
  LetterTimer(LetterTimer&&) noexcept;
  ~LetterTimer();

  struct Letter {
    std::size_t first = 0, count = 0;  // its times, in timed[which].samples_ns
    double wall_ns = 0;
    std::optional<double> clock_mhz;
  };
  Result<Letter> take(std::uint32_t which, std::uint32_t launches);
  /// At the end of a placement: what nobody should have written.
  Result<TimingFacts> finish();

 private:
  struct Impl;
  explicit LetterTimer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Hardware counters of one launch, each pass restored and flushed as a timed launch is.
/// Errors: those of gpu::Device::count().
Result<gpu::Counters> count_launch(const TimingSetup& setup, const Variant& variant,
                                   std::span<const std::string> names, const Deadline& deadline);

/// Launches back to back, with nothing restored or flushed between them: dispatches a second, and what each costs the host.
/// The variant must not read what it writes. What it writes is left as the last launch leaves it.
struct Throughput {
  double per_s = 0, host_us = 0;
  std::uint32_t launches = 0;
};
Result<Throughput> measure_throughput(Loaded& loaded, const Variant& variant, double launch_ns, const Deadline& deadline);

/// 0,0,0,... for one variant; for two ABBA or BAAB blocks by chance, each variant exactly `iterations` times
/// (the last block may be cut short). `run`: launches per letter (sustained), 1 for isolated.
std::vector<std::uint32_t> interleave(std::uint32_t variants, std::uint32_t iterations, std::uint32_t run,
                                      std::uint32_t seed);

}  // namespace klab::worker
