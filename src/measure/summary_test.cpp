// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "measure/summary.h"

namespace klab::measure {
namespace {

TEST(Summary, agrees_with_quantiles_of_type_7) {
  // R: quantile(c(1, 2, 4, 8, 16, 32), c(.25, .5, .75)) gives 2.5, 6, 14.
  const std::vector<double> samples = {32, 1, 16, 2, 8, 4};
  const Summary s = summarise(samples);
  EXPECT_EQ(s.count, 6u);
  EXPECT_DOUBLE_EQ(s.q1_ns, 2.5);
  EXPECT_DOUBLE_EQ(s.median_ns, 6);
  EXPECT_DOUBLE_EQ(s.q3_ns, 14);
  EXPECT_DOUBLE_EQ(s.min_ns, 1);
  EXPECT_DOUBLE_EQ(s.max_ns, 32);
  EXPECT_DOUBLE_EQ(s.mean_ns, 10.5);
  EXPECT_DOUBLE_EQ(s.spread, 11.5 / 6);
}

TEST(Summary, of_one_sample_and_of_none) {
  const Summary one = summarise(std::vector<double>{7});
  EXPECT_EQ(one.median_ns, 7);
  EXPECT_EQ(one.q1_ns, 7);
  EXPECT_EQ(one.spread, 0);
  const Summary none = summarise({});
  EXPECT_EQ(none.count, 0u);
  EXPECT_EQ(none.median_ns, 0);
  EXPECT_EQ(summarise(std::vector<double>(5, 0.0)).spread, 0) << "no division by zero";
}

TEST(Quantile, ends_are_the_extremes) {
  const std::vector<double> sorted = {1, 2, 3};
  EXPECT_EQ(quantile(sorted, 0), 1);
  EXPECT_EQ(quantile(sorted, 1), 3);
  EXPECT_EQ(quantile(sorted, 2), 3);
  EXPECT_EQ(quantile(sorted, 0.9), 2.8);
  EXPECT_EQ(quantile({}, 0.5), 0);
}

TEST(MedianRatio, of_constant_times_is_exact) {
  const std::vector<double> a(9, 100), b(9, 50);
  const Ratio r = median_ratio(a, b, 1);
  EXPECT_EQ(r.ratio, 0.5);
  EXPECT_EQ(r.low, 0.5);
  EXPECT_EQ(r.high, 0.5);
}

TEST(MedianRatio, the_same_seed_gives_the_same_interval) {
  std::mt19937_64 random(3);
  std::vector<double> a(50), b(50);
  for (double& x : a) x = 100 + static_cast<double>(random() % 1000) / 100;
  for (double& x : b) x = 90 + static_cast<double>(random() % 1000) / 100;
  const Ratio r = median_ratio(a, b, 7), same = median_ratio(a, b, 7), other = median_ratio(a, b, 8);
  EXPECT_EQ(r.low, same.low);
  EXPECT_EQ(r.high, same.high);
  EXPECT_TRUE(r.low != other.low || r.high != other.high);
  EXPECT_LT(r.low, r.ratio);
  EXPECT_GT(r.high, r.ratio);
}

TEST(MedianRatio, its_interval_covers_the_truth_about_as_often_as_it_says) {
  std::mt19937_64 random(5);
  std::lognormal_distribution<double> time(0, 0.05);
  int covered = 0;
  constexpr int kTrials = 200;
  for (std::uint32_t trial = 0; trial < kTrials; ++trial) {
    std::vector<double> a(40), b(40);
    for (double& x : a) x = 1000 * time(random);
    for (double& x : b) x = 1100 * time(random);
    const Ratio r = median_ratio(a, b, trial);
    covered += r.low <= 1.1 && 1.1 <= r.high;
  }
  // 95 % of 200 is 190, with a standard deviation of 3.
  EXPECT_GE(covered, 176);
  EXPECT_LT(covered, kTrials);
}

TEST(MedianRatio, without_samples_says_one) {
  const std::vector<double> a = {1, 2};
  EXPECT_EQ(median_ratio({}, a, 1).ratio, 1);
  EXPECT_EQ(median_ratio(a, {}, 1).high, 1);
  EXPECT_EQ(median_ratio(std::vector<double>{0, 0}, a, 1).ratio, 1);
}

TEST(Json, carries_units_in_names) {
  const Json j = summarise(std::vector<double>{1, 2, 3});
  EXPECT_EQ(j.at("median_ns"), 2);
  EXPECT_EQ(j.at("count"), 3);
  EXPECT_EQ(Json(Ratio{0.5, 0.4, 0.6}).at("high"), 0.6);
}

}  // namespace
}  // namespace klab::measure
