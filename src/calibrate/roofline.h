// SPDX-License-Identifier: Apache-2.0
// Places a run under the roofs of its device: its own mix of reads and writes, its own precision. Pure arithmetic.
// Not here: where the work's numbers come from (counters, or the user's --flops and --bytes).
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/calibration.h"

namespace klab::calibrate {

/// What one launch does. Never guessed: what nobody counted or said is left out.
struct Work {
  /// Bytes of memory. Where only their sum is known it is bytes_read, and bytes_written is empty.
  std::optional<double> bytes_read, bytes_written;
  std::map<std::string, double> flops;  // by precision, as figures are named: fp32, bf16, int8 (an FMA is two)
  bool matrix = false;                  // done by matrix instructions
  std::string source;                   // "counters" or "given"
  bool empty() const { return !bytes_read && !bytes_written && flops.empty(); }
};

struct Placement {
  std::optional<double> achieved_gbs, achieved_gflops;  // at the median
  std::optional<double> intensity;                      // operations a byte
  std::optional<double> memory_roof_gbs;                // of this mix
  std::string memory_roof;                              // "memory, 33 % of the bytes written" or "last-level cache"
  std::optional<double> compute_roof_gflops;            // of this mix of precisions
  std::string compute_roof;                             // "matrix bf16 (wgmma)"
  std::string bound;                                    // "memory" or "compute"; empty: no roof to compare with
  std::optional<double> share;                          // of the speed of light: least possible time over the median
  bool impossible = false;
  std::string sentence;            // why it is impossible
  std::vector<std::string> notes;  // what could not be compared, and why
};
void to_json(Json& j, const Placement& v);

/// `low_ns`..`high_ns`: the interval of the run's time, around `median_ns`; all positive. `captured_bytes`: all memory
/// that the launch can touch; 0: not known. Impossible: even `high_ns` is less than the work needs at the best that
/// calibration saw, with what fits the last-level cache taken at the cache's rate.
Placement place(const Calibration& calibration, const Work& work, double median_ns, double low_ns, double high_ns,
                std::uint64_t captured_bytes = 0);

/// GB/s of accesses of which `written` (0..1) are writes: time a byte is interpolated between read (0), triad (1/3),
/// copy (1/2) and write (1). `ceiling`: of the best samples, not the medians. None when none was measured.
std::optional<double> memory_roof(const Calibration& calibration, double written, bool ceiling = false);

}  // namespace klab::calibrate
