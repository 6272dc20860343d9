// SPDX-License-Identifier: Apache-2.0
#include "measure/summary.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace klab::measure {
double quantile(std::span<const double> sorted, double q) {
  if (sorted.empty()) return 0;
  const double at = std::clamp(q, 0.0, 1.0) * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  if (below + 1 >= sorted.size()) return sorted.back();
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[below + 1] - sorted[below]);
}

Summary summarise(std::span<const double> samples_ns) {
  Summary s;
  if (samples_ns.empty()) return s;
  std::vector<double> sorted(samples_ns.begin(), samples_ns.end());
  std::sort(sorted.begin(), sorted.end());
  s.count = sorted.size();
  s.min_ns = sorted.front();
  s.max_ns = sorted.back();
  s.q1_ns = quantile(sorted, 0.25);
  s.median_ns = quantile(sorted, 0.5);
  s.q3_ns = quantile(sorted, 0.75);
  double sum = 0;
  for (const double x : sorted) sum += x;
  s.mean_ns = sum / static_cast<double>(sorted.size());
  s.spread = s.median_ns > 0 ? (s.q3_ns - s.q1_ns) / s.median_ns : 0;
  return s;
}

std::pair<double, double> median_interval(std::span<const double> samples_ns) {
  if (samples_ns.empty()) return {0, 0};
  std::vector<double> sorted(samples_ns.begin(), samples_ns.end());
  std::sort(sorted.begin(), sorted.end());
  const auto n = static_cast<double>(sorted.size());
  const double away = 1.96 * std::sqrt(n) / 2;
  const auto rank = [&](double at) {
    return sorted[static_cast<std::size_t>(std::clamp(at, 1.0, n)) - 1];
  };
  return {rank(std::floor(n / 2 - away)), rank(std::ceil(n / 2 + away) + 1)};
}

void to_json(Json& j, const Summary& v) {
  j = Json{{"count", v.count},   {"median_ns", v.median_ns}, {"q1_ns", v.q1_ns},     {"q3_ns", v.q3_ns},
           {"min_ns", v.min_ns}, {"max_ns", v.max_ns},       {"mean_ns", v.mean_ns}, {"spread", v.spread}};
}

void from_json(const Json& j, Summary& v) {
  read_optional(j, "count", v.count);
  read_optional(j, "median_ns", v.median_ns);
  read_optional(j, "q1_ns", v.q1_ns);
  read_optional(j, "q3_ns", v.q3_ns);
  read_optional(j, "min_ns", v.min_ns);
  read_optional(j, "max_ns", v.max_ns);
  read_optional(j, "mean_ns", v.mean_ns);
  read_optional(j, "spread", v.spread);
}

}  // namespace klab::measure
