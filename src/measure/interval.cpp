// SPDX-License-Identifier: Apache-2.0
#include "measure/interval.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include <boost/math/distributions/students_t.hpp>

#include "measure/random.h"
#include "measure/summary.h"

namespace klab::measure {
namespace {

constexpr int kResamples = 10000;

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

struct Moments {
  double mean = 0, error = 0;  // standard error of the mean
};
Moments moments_of_means(const Grouped& values) {
  std::vector<double> means;
  for (const auto& group : values) means.push_back(mean(group));
  Moments m{mean(means), 0};
  double sum = 0;
  for (const double x : means) sum += (x - m.mean) * (x - m.mean);
  const auto n = static_cast<double>(means.size());
  m.error = n > 1 ? std::sqrt(sum / (n - 1) / n) : 0;
  return m;
}

}  // namespace

double student_quantile(double p, double degrees) {
  return boost::math::quantile(boost::math::students_t(degrees), p);
}

Interval ratio_interval(const Grouped& values, double alpha, std::uint64_t seed) {
  Interval i;
  i.alpha = alpha;
  i.from = "none";
  if (values.empty()) return i;
  const Moments m = moments_of_means(values);
  i.ratio = std::exp(m.mean);
  if (values.size() < 2 || !(alpha > 0 && alpha < 1)) return i;  // a stored design may say anything
  const double reach = student_quantile(1 - alpha / 2, static_cast<double>(values.size() - 1)) * m.error;
  i.low = std::exp(m.mean - reach);
  i.high = std::exp(m.mean + reach);
  i.from = "student";

  std::mt19937_64 random(seed);
  std::vector<double> means(kResamples);
  for (double& drawn : means) {
    double sum = 0;
    for (std::size_t g = 0; g < values.size(); ++g) {
      const auto& group = values[pick(random, values.size())];
      double of_group = 0;
      for (std::size_t k = 0; k < group.size(); ++k) of_group += group[pick(random, group.size())];
      sum += of_group / static_cast<double>(group.size());
    }
    drawn = sum / static_cast<double>(values.size());
  }
  std::sort(means.begin(), means.end());
  const double low = std::exp(quantile(means, alpha / 2)), high = std::exp(quantile(means, 1 - alpha / 2));
  if (high - low > i.high - i.low) {
    i.low = low;
    i.high = high;
    i.from = "bootstrap";
  }
  return i;
}

void to_json(Json& j, const Interval& v) {
  j = Json{{"ratio", v.ratio}, {"low", v.low}, {"high", v.high}, {"alpha", v.alpha}, {"from", v.from}};
}

void from_json(const Json& j, Interval& v) {
  read_optional(j, "ratio", v.ratio);
  read_optional(j, "low", v.low);
  read_optional(j, "high", v.high);
  read_optional(j, "alpha", v.alpha);
  read_optional(j, "from", v.from);
}

}  // namespace klab::measure
