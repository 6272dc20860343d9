// SPDX-License-Identifier: Apache-2.0
#include "measure/summary.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "measure/random.h"

namespace klab::measure {
namespace {

constexpr int kResamples = 2000;
constexpr double kTail = 0.025;  // of a 95 % interval

double median_of(std::vector<double>& samples) {
  const std::size_t half = samples.size() / 2;
  std::nth_element(samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(half), samples.end());
  const double upper = samples[half];
  if (samples.size() % 2 != 0) return upper;
  return (*std::max_element(samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(half)) + upper) /
         2;
}

double resampled_median(std::span<const double> from, std::vector<double>& scratch, std::mt19937_64& random) {
  scratch.resize(from.size());
  for (double& x : scratch) x = from[pick(random, from.size())];
  return median_of(scratch);
}

}  // namespace

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

Ratio median_ratio(std::span<const double> a_ns, std::span<const double> b_ns, std::uint32_t seed) {
  Ratio r;
  if (a_ns.empty() || b_ns.empty()) return r;
  std::vector<double> a(a_ns.begin(), a_ns.end()), b(b_ns.begin(), b_ns.end());
  const double base = median_of(a);
  if (!(base > 0)) return r;
  r.ratio = median_of(b) / base;
  std::mt19937_64 random(seed);
  std::vector<double> ratios;
  ratios.reserve(kResamples);
  for (int i = 0; i < kResamples; ++i) {
    const double of_a = resampled_median(a_ns, a, random);
    const double of_b = resampled_median(b_ns, b, random);
    if (of_a > 0) ratios.push_back(of_b / of_a);
  }
  std::sort(ratios.begin(), ratios.end());
  r.low = quantile(ratios, kTail);
  r.high = quantile(ratios, 1 - kTail);
  return r;
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

void from_json(const Json& j, Ratio& v) {
  read_optional(j, "ratio", v.ratio);
  read_optional(j, "low", v.low);
  read_optional(j, "high", v.high);
}

void to_json(Json& j, const Ratio& v) { j = Json{{"ratio", v.ratio}, {"low", v.low}, {"high", v.high}}; }

}  // namespace klab::measure
