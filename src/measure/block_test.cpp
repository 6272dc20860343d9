// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "measure/block.h"

namespace klab::measure {
namespace {

Block block_of(double a1, double b1, double b2, double a2) {
  Block b;
  b.a = {Letter{a1, 1, {}}, Letter{a2, 1, {}}};
  b.b = {Letter{b1, 1, {}}, Letter{b2, 1, {}}};
  return b;
}

TEST(Block, gives_the_logarithm_of_the_ratio) {
  EXPECT_NEAR(block_of(100, 50, 50, 100).log_ratio(), std::log(0.5), 1e-15);
  EXPECT_NEAR(block_of(100, 200, 50, 100).log_ratio(), 0, 1e-15);
}

TEST(Block, linear_drift_of_the_logarithm_cancels_in_either_order) {
  const auto at = [](int k) { return 1000 * std::exp(0.05 * k); };
  EXPECT_NEAR(block_of(at(0), 1.1 * at(1), 1.1 * at(2), at(3)).log_ratio(), std::log(1.1), 1e-12);
  EXPECT_NEAR(block_of(at(1), 1.1 * at(0), 1.1 * at(3), at(2)).log_ratio(), std::log(1.1), 1e-12);
}

TEST(Block, cycles_undo_a_clock_that_only_one_of_them_had) {
  Block b = block_of(100, 200, 200, 100);
  EXPECT_FALSE(b.log_ratio_cycles().has_value());
  for (Letter& l : b.a) l.clock_mhz = 1800;
  for (Letter& l : b.b) l.clock_mhz = 900;
  EXPECT_NEAR(b.log_ratio_cycles().value(), 0, 1e-12);
}

TEST(TimerStep, is_the_smallest_difference_and_rounding_is_none) {
  EXPECT_NEAR(timer_step(std::vector<double>{1024, 3072, 2048, 2048}), 1024, 1e-9);
  EXPECT_EQ(timer_step(std::vector<double>{5, 5, 5}), 0);
  const double ms = static_cast<double>(0.010272f);
  EXPECT_EQ(timer_step(std::vector<double>{ms * 1e6, ms * 1e6 * (1 + 1e-8)}), 0);
}

TEST(GroupedMedian, is_the_ordinary_one_where_times_differ) {
  EXPECT_DOUBLE_EQ(grouped_median(std::vector<double>{5, 1, 3}, 0), 3);
  EXPECT_DOUBLE_EQ(grouped_median(std::vector<double>{4, 1, 3, 2}, 0), 2.5);
  EXPECT_DOUBLE_EQ(grouped_median(std::vector<double>{10, 20, 30}, 0.001), 20);
  EXPECT_TRUE(std::isnan(grouped_median({}, 1)));
}

TEST(GroupedMedian, interpolates_within_the_class_of_a_coarse_timer) {
  // By hand: classes [9.5, 10.5) with 2, [10.5, 11.5) with 6: the middle of 8 lies (4 - 2)/6 into the second.
  const std::vector<double> times = {10, 10, 11, 11, 11, 11, 11, 11};
  EXPECT_NEAR(grouped_median(times, 1), 10.5 + 2.0 / 6, 1e-12);
}

TEST(GroupedMedian, tells_kernels_apart_that_a_coarse_timer_rounds_to_the_same_tick) {
  std::mt19937_64 random(11);
  std::normal_distribution<double> noise(0, 300);
  const auto median = [&](double truth) {
    std::vector<double> times(2000);
    for (double& t : times) t = std::round((truth + noise(random)) / 1024) * 1024;
    return grouped_median(times, timer_step(times));
  };
  // Where the noise is a third of a tick some of the difference is lost, towards equality; none of it is invented.
  EXPECT_GT(median(10150) / median(10000), 1.004) << "both round to 10240";
  EXPECT_LT(median(10150) / median(10000), 1.016);
}

TEST(BalancedOrder, has_as_many_of_each_in_an_order_that_the_seed_gives) {
  for (const std::uint32_t n : {1u, 6u, 7u, 48u}) {
    const auto order = balanced_order(n, 3);
    const auto baab = std::count(order.begin(), order.end(), true);
    EXPECT_LE(std::abs(2 * baab - static_cast<long>(n)), 1);
    EXPECT_EQ(order, balanced_order(n, 3));
  }
  EXPECT_NE(balanced_order(48, 3), balanced_order(48, 4));
}

}  // namespace
}  // namespace klab::measure
