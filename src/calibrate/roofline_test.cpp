// SPDX-License-Identifier: Apache-2.0
// Placements against numbers worked out by hand.
#include <gtest/gtest.h>

#include "calibrate/roofline.h"

namespace klab::calibrate {
namespace {

Figure figure(Kind kind, const char* name, double value, double best = 0) {
  return {.kind = kind, .name = name, .unit = "GB/s", .value = value, .q1 = value, .q3 = value,
          .best = best == 0 ? value : best};
}

/// read 1000, triad 900, copy 800, write 500 GB/s; cache 4000 GB/s, 50 MB; fp32 10 TFLOP/s, bf16 matrices 100.
Calibration sample() {
  Calibration c;
  c.last_level_cache = 50'000'000;
  c.figures = {figure(Kind::memory, "read", 900),      figure(Kind::memory, "read", 1000),
               figure(Kind::memory, "triad", 900),     figure(Kind::memory, "copy", 800),
               figure(Kind::memory, "write", 500),     figure(Kind::cache, "cache_read", 4000),
               figure(Kind::vector, "fp32", 10'000),   figure(Kind::matrix, "bf16", 100'000, 120'000),
               figure(Kind::matrix, "tf32", 50'000)};
  return c;
}
constexpr std::uint64_t kLarge = 50'000'000'000;  // a thousand times the cache

TEST(Roofline, mixes_time_a_byte_by_the_share_written) {
  const Calibration c = sample();
  EXPECT_DOUBLE_EQ(*memory_roof(c, 0), 1000);
  EXPECT_NEAR(*memory_roof(c, 1.0 / 3), 900, 1e-9);
  EXPECT_DOUBLE_EQ(*memory_roof(c, 0.5), 800);
  EXPECT_DOUBLE_EQ(*memory_roof(c, 1), 500);
  // Half way from copy to write: (1/800 + 1/500) / 2 = 0.001625 ns a byte.
  EXPECT_NEAR(*memory_roof(c, 0.75), 1 / 0.001625, 1e-9);
  // Half way from read to triad: (1/1000 + 1/900) / 2.
  EXPECT_NEAR(*memory_roof(c, 1.0 / 6), 2 / (1.0 / 1000 + 1.0 / 900), 1e-9);
}

TEST(Roofline, uses_the_points_that_were_measured) {
  Calibration c;
  EXPECT_FALSE(memory_roof(c, 0));
  c.figures = {figure(Kind::memory, "read", 1000), figure(Kind::memory, "write", 500)};
  EXPECT_NEAR(*memory_roof(c, 0.5), 1 / ((1.0 / 1000 + 1.0 / 500) / 2), 1e-9);
  c.figures = {figure(Kind::memory, "copy", 800)};
  EXPECT_DOUBLE_EQ(*memory_roof(c, 0), 800);
  EXPECT_DOUBLE_EQ(*memory_roof(c, 1), 800);
}

TEST(Roofline, places_a_saxpy_under_the_triad_roof) {
  // 8 GB read, 4 GB written, 2e9 operations, 20 ms: 600 GB/s of 900; 0.1 TFLOP/s of 10.
  const Placement p = place(sample(), {.bytes_read = 8e9, .bytes_written = 4e9, .flops = {{"fp32", 2e9}},
                                       .source = "counters"}, 20e6, 19e6, 21e6, kLarge);
  EXPECT_NEAR(*p.achieved_gbs, 600, 1e-9);
  EXPECT_NEAR(*p.achieved_gflops, 100, 1e-9);
  EXPECT_NEAR(*p.intensity, 2.0 / 12, 1e-12);
  EXPECT_NEAR(*p.memory_roof_gbs, 900, 1e-9);
  EXPECT_NEAR(*p.compute_roof_gflops, 10'000, 1e-9);
  EXPECT_EQ(p.bound, "memory");
  EXPECT_NEAR(*p.share, 600.0 / 900, 1e-12);
  EXPECT_FALSE(p.impossible);
}

TEST(Roofline, places_a_matrix_product_under_its_precision) {
  // 1e12 operations in 20 ms: 50 TFLOP/s of 100; 1 GB would take 1 ms.
  const Placement p = place(sample(), {.bytes_read = 1e9, .bytes_written = 0.0, .flops = {{"bf16", 1e12}}, .matrix = true,
                                       .source = "given"}, 20e6, 19e6, 21e6, kLarge);
  EXPECT_EQ(p.bound, "compute");
  EXPECT_NEAR(*p.share, 0.5, 1e-12);
  EXPECT_EQ(p.compute_roof, "matrix bf16");
  const Placement tf32 = place(sample(), {.flops = {{"fp32", 1e12}}, .matrix = true, .source = "given"}, 40e6, 39e6, 41e6);
  EXPECT_NEAR(*tf32.share, 0.5, 1e-12);
}

TEST(Roofline, adds_the_time_of_precisions_on_the_same_units) {
  Calibration c = sample();
  c.figures.push_back(figure(Kind::vector, "fp64", 5000));
  // 1e9 at 10 TFLOP/s and 1e9 at 5: 0.1 + 0.2 ms. In 1 ms that is 30 %; 2e9 in 0.3 ms are 6667 GFLOP/s.
  const Placement p = place(c, {.flops = {{"fp32", 1e9}, {"fp64", 1e9}}, .source = "counters"}, 1e6, 1e6, 1e6);
  EXPECT_NEAR(*p.share, 0.3, 1e-12);
  EXPECT_NEAR(*p.compute_roof_gflops, 2e9 / 0.3e6, 1e-6);
}

TEST(Roofline, says_impossible_only_beyond_the_slow_end_of_the_interval) {
  // 10 GB read need 10 ms; of memory a thousand times the cache a thousandth could come four times as fast.
  const Work work{.bytes_read = 10e9, .bytes_written = 0.0, .source = "counters"};
  EXPECT_FALSE(place(sample(), work, 10.1e6, 10e6, 10.2e6, kLarge).impossible);
  EXPECT_FALSE(place(sample(), work, 9.5e6, 9e6, 10.05e6, kLarge).impossible);
  const Placement p = place(sample(), work, 9.5e6, 9e6, 9.9e6, kLarge);
  EXPECT_TRUE(p.impossible);
  EXPECT_NE(p.sentence.find("1001 GB/s at best"), std::string::npos) << p.sentence;
  EXPECT_GT(*p.share, 1);
}

TEST(Roofline, takes_the_best_that_was_ever_seen_for_impossible) {
  // The matrix roof is 100 TFLOP/s settled and was 120 at best: 1.1e12 in 10 ms are 110.
  const Work work{.flops = {{"bf16", 1.1e12}}, .matrix = true, .source = "counters"};
  const Placement p = place(sample(), work, 10e6, 10e6, 10e6);
  EXPECT_FALSE(p.impossible);
  EXPECT_NEAR(*p.share, 1.1, 1e-12);
  EXPECT_TRUE(place(sample(), {.flops = {{"bf16", 1.3e12}}, .matrix = true, .source = "counters"}, 10e6, 10e6, 10e6)
                  .impossible);
}

TEST(Roofline, a_ceiling_is_no_roof_where_there_is_one) {
  Calibration c = sample();
  c.figures.push_back(figure(Kind::matrix, "bf16", 200'000, 210'000));
  c.figures.back().ceiling_only = true;
  EXPECT_DOUBLE_EQ(c.best(Kind::matrix, "bf16")->value, 100'000);
  EXPECT_DOUBLE_EQ(c.ceiling(Kind::matrix, "bf16"), 210'000);
  const auto at = [&](double flops) {
    return place(c, {.flops = {{"bf16", flops}}, .matrix = true, .source = "counters"}, 10e6, 10e6, 10e6);
  };
  EXPECT_FALSE(at(2e12).impossible);
  EXPECT_NEAR(*at(2e12).share, 2, 1e-12);
  EXPECT_TRUE(at(2.2e12).impossible);
  c.figures.clear();
  c.figures.push_back(figure(Kind::matrix, "bf16", 200'000));
  c.figures.back().ceiling_only = true;
  EXPECT_NE(c.best(Kind::matrix, "bf16"), nullptr);
}

TEST(Roofline, a_working_set_that_fits_the_cache_has_the_caches_roof) {
  // 40 MB read in 20 us: 2000 GB/s, twice what memory attains and half of what the cache does.
  const Work work{.bytes_read = 40e6, .bytes_written = 0.0, .source = "given"};
  const Placement inside = place(sample(), work, 20e3, 19e3, 21e3, 40'000'000);
  EXPECT_FALSE(inside.impossible);
  EXPECT_NEAR(*inside.share, 0.5, 1e-12);
  EXPECT_NEAR(*inside.memory_roof_gbs, 4000, 1e-9);
  // In memory a hundred times the cache at most 1 % comes from it: 2000 GB/s are impossible.
  EXPECT_TRUE(place(sample(), work, 20e3, 19e3, 21e3, 5'000'000'000).impossible);
  // Twice the cache: half at 4000 and half at 1000 is 1600 GB/s: 40 MB need 25 us.
  EXPECT_TRUE(place(sample(), work, 20e3, 19e3, 21e3, 100'000'000).impossible);
  EXPECT_FALSE(place(sample(), work, 25.1e3, 25e3, 25.2e3, 100'000'000).impossible);
}

TEST(Roofline, judges_nothing_that_it_cannot_know) {
  Calibration c = sample();
  c.last_level_cache = 0;
  const Placement unknown = place(c, {.bytes_read = 10e9, .bytes_written = 0.0, .source = "given"}, 1e6, 1e6, 1e6, kLarge);
  EXPECT_FALSE(unknown.impossible);
  EXPECT_FALSE(unknown.notes.empty());
  // Without a split the fastest mix counts.
  Calibration writes = sample();
  writes.figures.push_back(figure(Kind::memory, "write", 2000));
  EXPECT_FALSE(place(writes, {.bytes_read = 10e9, .source = "counters"}, 6e6, 6e6, 6e6, kLarge).impossible);
  // Operations that nobody counted may be the matrix units'.
  const Placement p = place(sample(), {.flops = {{"bf16", 5e11}}, .source = "given"}, 10e6, 10e6, 10e6);
  EXPECT_FALSE(p.impossible);
  EXPECT_NEAR(*p.share, 0.5, 1e-12);
  // A precision without a figure.
  const Placement none = place(sample(), {.flops = {{"fp6", 1e12}}, .source = "given"}, 1e6, 1e6, 1e6);
  EXPECT_FALSE(none.share);
  EXPECT_EQ(none.notes.size(), 1u);
  EXPECT_FALSE(place(sample(), {}, 1e6, 1e6, 1e6).share);
}

}  // namespace
}  // namespace klab::calibrate
