// SPDX-License-Identifier: Apache-2.0
// Intervals of a ratio of times from values that come in groups: blocks in placements.
// Not here: what is concluded from them (comparison.h).
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"

namespace klab::measure {

/// Logarithms of ratios, one list for each placement; none of them is empty.
using Grouped = std::vector<std::vector<double>>;

struct Interval {
  double ratio = 1, low = 0, high = 0;  // exponentials; [0, infinity) is written as high = 0 with low = 0
  double alpha = 0.05;                  // chance to miss the truth, both sides together
  std::string from;                     // which was wider: "student" or "bootstrap"; "none": fewer than two placements
  bool bounded() const { return high > 0; }
  double half_width() const { return (high - low) / 2; }
};
void to_json(Json& j, const Interval& v);
void from_json(const Json& j, Interval& v);

/// Quantile of Student's distribution: P(T <= t) = p with `degrees` of freedom.
double student_quantile(double p, double degrees);
/// Mean of the groups' means, exponentiated; Student's interval over them with (groups - 1) degrees of freedom, and a
/// percentile bootstrap that draws groups and then values of each (10,000 times, `seed`): the wider of the two.
/// Kalibera & Jones, "Rigorous benchmarking in reasonable time", ISMM 2013: repeat at the level that varies most.
Interval ratio_interval(const Grouped& values, double alpha, std::uint64_t seed);

}  // namespace klab::measure
