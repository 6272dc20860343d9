// SPDX-License-Identifier: Apache-2.0
// Numbers of a run, without a claim. Claims are a comparison's (comparison.h).
#pragma once
#include <cstdint>
#include <span>
#include <utility>

#include "base/json.h"

namespace klab::measure {

/// Order statistics of samples in nanoseconds; quartiles by linear interpolation (Hyndman & Fan 1996, type
/// 7).
struct Summary {
  std::uint64_t count = 0;
  double median_ns = 0, q1_ns = 0, q3_ns = 0, min_ns = 0, max_ns = 0, mean_ns = 0;
  double spread = 0;  // (q3 - q1) / median
};
Summary summarise(std::span<const double> samples_ns);
double quantile(std::span<const double> sorted, double q);
/// An interval of the median without a distribution: the order statistics that hold it at 95 % (binomial, by its normal
/// approximation; all of them for fewer than 6). {0, 0} of none.
std::pair<double, double> median_interval(std::span<const double> samples_ns);
void to_json(Json& j, const Summary& v);
void from_json(const Json& j, Summary& v);

}  // namespace klab::measure
