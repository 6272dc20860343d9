// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

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

TEST(MedianInterval, is_given_by_order_statistics) {
  // The usual table (n = 20: the 6th and the 15th have 95.9 %): by the approximation the 5th and the 16th.
  std::vector<double> times(20);
  for (int i = 0; i < 20; ++i) times[static_cast<std::size_t>(i)] = i + 1;
  EXPECT_EQ(median_interval(times), (std::pair{5.0, 16.0}));
  EXPECT_EQ(median_interval(std::vector<double>{3, 1, 2}), (std::pair{1.0, 3.0}));
  EXPECT_EQ(median_interval({}), (std::pair{0.0, 0.0}));
}

TEST(Json, carries_units_in_names) {
  const Json j = summarise(std::vector<double>{1, 2, 3});
  EXPECT_EQ(j.at("median_ns"), 2);
  EXPECT_EQ(j.at("count"), 3);
}

}  // namespace
}  // namespace klab::measure
