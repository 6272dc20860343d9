// SPDX-License-Identifier: Apache-2.0
// Numbers of a run, without a claim. Claims are a comparison's (see docs/measuring.md).
#pragma once
#include <cstdint>
#include <span>

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
void to_json(Json& j, const Summary& v);
void from_json(const Json& j, Summary& v);

/// Interleaved medians of A and B: ratio of B's median time to A's, and a percentile bootstrap interval (95
/// %, `seed`). Simple form: no claim is made of it.
struct Ratio {
  double ratio = 1, low = 1, high = 1;
};
Ratio median_ratio(std::span<const double> a_ns, std::span<const double> b_ns, std::uint32_t seed);
void to_json(Json& j, const Ratio& v);
void from_json(const Json& j, Ratio& v);

}  // namespace klab::measure
