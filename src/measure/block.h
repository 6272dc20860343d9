// SPDX-License-Identifier: Apache-2.0
// The unit of a comparison: four letters, ABBA or BAAB, and the logarithm of the ratio that they give.
// Not here: taking the times (worker/), what many blocks mean (comparison.h).
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"

namespace klab::measure {

/// Some launches of one variant in a row.
struct Letter {
  double time_ns = 0;  // grouped_median() of its launches
  std::uint32_t launches = 0;
  std::optional<double> clock_mhz;  // of the processors, over this letter
};
void to_json(Json& j, const Letter& v);
void from_json(const Json& j, Letter& v);

struct Block {
  std::uint32_t placement = 0;  // memory layout that it ran in, from 0
  bool starts_with_b = false;   // BAAB
  double at_s = 0;              // when it began, since the comparison did
  std::array<Letter, 2> a, b;   // in the order in which they ran
  std::string dropped;          // why it does not count; decided without looking at its times. Empty: it counts

  /// Half of (ln B1 + ln B2 - ln A1 - ln A2): the logarithm of B's time over A's, free of linear drift.
  double log_ratio() const;
  /// The same of cycles (time times clock). Empty when a clock was not seen.
  std::optional<double> log_ratio_cycles() const;
};
void to_json(Json& j, const Block& v);
void from_json(const Json& j, Block& v);

/// The smallest step between two different times: what the timer can tell apart. 0 without two different times.
double timer_step(std::span<const double> times_ns);
/// Median; where several times equal it, because the timer is coarse, interpolated within their class of width
/// `step` (the median of grouped data). NaN of none.
double grouped_median(std::span<const double> times_ns, double step);

/// As many true as false (one more of either, by chance, when odd), in an order that `seed` gives: which blocks are BAAB.
std::vector<bool> balanced_order(std::uint32_t blocks, std::uint64_t seed);

}  // namespace klab::measure
