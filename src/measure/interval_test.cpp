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
  EXPECT_NEAR(student_cumulative(2.365, 7), 0.975, 1e-4);
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

TEST(Holm, rejects_as_worked_by_hand) {
  // alpha .05 of four: .0125, .01667, .025, .05 in ascending order of p.
  EXPECT_THAT(holm(std::vector<double>{0.03, 0.01, 0.04, 0.005}, 0.05), testing::ElementsAre(false, true, false, true));
  EXPECT_THAT(holm(std::vector<double>{0.02, 0.04}, 0.05), testing::ElementsAre(true, true));
  EXPECT_THAT(holm(std::vector<double>{0.03, 0.04}, 0.05), testing::ElementsAre(false, false)) << "the first must pass alpha/2";
  EXPECT_TRUE(holm({}, 0.05).empty());
}

TEST(Holm, eight_equal_finalists_give_a_false_winner_no_more_often_than_alpha) {
  std::mt19937_64 random(17);
  std::normal_distribution<double> noise(0, 0.01);
  int plain = 0, corrected = 0;
  constexpr int kTrials = 2000;
  for (int t = 0; t < kTrials; ++t) {
    std::vector<double> p;
    for (int f = 0; f < 8; ++f) {
      Grouped values;
      for (int g = 0; g < 8; ++g) values.push_back({noise(random)});
      p.push_back(p_below(values, 1));
    }
    plain += *std::min_element(p.begin(), p.end()) <= 0.05;
    for (const bool r : holm(p, 0.05))
      if (r) {
        ++corrected;
        break;
      }
  }
  EXPECT_GT(plain, kTrials / 4) << "without a correction";
  EXPECT_LT(corrected, kTrials * 7 / 100);
}

TEST(PBelow, agrees_with_the_interval) {
  const Grouped values = {{std::log(0.95)}, {std::log(0.94)}, {std::log(0.96)}};
  EXPECT_LT(p_below(values, 1), 0.025);
  EXPECT_GT(p_below(values, 0.95), 0.4);
  EXPECT_EQ(p_below({{0.0}}, 1), 1);
}

}  // namespace
}  // namespace klab::measure
