// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "measure/interval.h"

namespace klab::measure {
namespace {

TEST(Student, quantiles_are_those_of_the_tables) {
  // Abramowitz & Stegun, table 26.10: t(0.975) with 7 degrees 2.365, with 31 2.040; t(0.9975) with 7 4.029.
  EXPECT_NEAR(student_quantile(0.975, 7), 2.365, 5e-4);
  EXPECT_NEAR(student_quantile(0.975, 31), 2.040, 5e-4);
  EXPECT_NEAR(student_quantile(0.9975, 7), 4.029, 5e-4);
}

TEST(RatioInterval, of_one_value_a_group_is_students) {
  // By Python's statistics module, with t(0.975) of 3 degrees 3.182446.
  const Grouped values = {{std::log(1.01)}, {std::log(1.03)}, {std::log(0.99)}, {std::log(1.02)}};
  const Interval i = ratio_interval(values, 0.05, 1);
  EXPECT_EQ(i.from, "student");
  EXPECT_NEAR(std::log(i.ratio), 0.012315, 2e-6);
  EXPECT_NEAR(std::log(i.low), -0.014614, 2e-6);
  EXPECT_NEAR(std::log(i.high), 0.039244, 2e-6);
}

TEST(RatioInterval, takes_the_bootstrap_where_it_is_wider) {
  // Few values that differ much in each of many groups whose means agree: between the means there is next to nothing.
  Grouped values;
  for (int g = 0; g < 16; ++g) values.push_back({-0.1, 0.1});
  const Interval i = ratio_interval(values, 0.05, 1);
  EXPECT_EQ(i.from, "bootstrap");
  EXPECT_LT(i.low, 1 - 0.02);
  EXPECT_GT(i.high, 1 + 0.02);
}

TEST(RatioInterval, is_the_same_for_the_same_seed_and_open_without_two_groups) {
  Grouped values;
  std::mt19937_64 random(1);
  std::normal_distribution<double> noise(0, 0.01);
  for (int g = 0; g < 8; ++g) values.push_back({noise(random), noise(random), noise(random)});
  EXPECT_EQ(Json(ratio_interval(values, 0.05, 7)), Json(ratio_interval(values, 0.05, 7)));
  EXPECT_FALSE(ratio_interval({{0.1, 0.2}}, 0.05, 1).bounded());
  EXPECT_NEAR(ratio_interval({{0.1, 0.3}}, 0.05, 1).ratio, std::exp(0.2), 1e-12);
  EXPECT_FALSE(ratio_interval({}, 0.05, 1).bounded());
}

}  // namespace
}  // namespace klab::measure
