// SPDX-License-Identifier: Apache-2.0
// Parts of the worker that need no device.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "worker/probe.h"
#include "worker/relocate.h"
#include "worker/timing.h"

namespace klab::worker {
namespace {

std::vector<std::byte> words(const std::vector<std::uint64_t>& v) {
  std::vector<std::byte> b(v.size() * 8);
  std::memcpy(b.data(), v.data(), b.size());
  return b;
}

TEST(Relocator, rewrites_words_inside_old_ranges_and_no_others) {
  const Relocator r({{0x2000, 0x100, 0x9000}, {0x1000, 0x10, 0x8000}});
  auto b = words({0x1000, 0x100f, 0x1010, 0xfff, 0x20ff, 0x2100, 0});
  EXPECT_EQ(r.pointer_words(b).count(), 3u * 8);
  EXPECT_EQ(r.rewrite(b), 3u);
  EXPECT_EQ(b, words({0x8000, 0x800f, 0x1010, 0xfff, 0x90ff, 0x2100, 0}));
}

TEST(Relocator, looks_at_aligned_words_only) {
  const Relocator r({{0x11223344, 0x10, 0x55}});
  auto b = words({0x1122334400000000, 0x1122334400000000});  // unaligned occurrences
  EXPECT_EQ(r.rewrite(b), 0u);
}

TEST(Relocator, nothing_moves_when_addresses_are_kept) {
  const Relocator r({{0x1000, 0x10, 0x1000}});
  auto b = words({0x1008});
  EXPECT_FALSE(r.moves());
  EXPECT_EQ(r.rewrite(b), 0u);
  EXPECT_EQ(r.pointer_words(b).count(), 8u);
}

TEST(Relocator, finds_the_range_behind_a_shorter_one) {
  const Relocator r({{0x1000, 0x1000, 0x5000}, {0x1100, 0x10, 0x7000}});
  auto b = words({0x1800});
  EXPECT_EQ(r.rewrite(b), 1u);
  EXPECT_EQ(b, words({0x5800}));
}

TEST(Interleave, is_balanced_and_paired) {
  for (std::uint32_t seed = 0; seed < 10; ++seed) {
    const auto order = interleave(2, 20, 1, seed);
    ASSERT_EQ(order.size(), 40u);
    EXPECT_EQ(std::count(order.begin(), order.end(), 0u), 20);
    for (std::size_t i = 0; i < order.size(); i += 4) {
      EXPECT_EQ(order[i], order[i + 3]);
      EXPECT_EQ(order[i + 1], order[i + 2]);
      EXPECT_NE(order[i], order[i + 1]);
    }
    std::size_t abba = 0;
    for (std::size_t i = 0; i < order.size(); i += 4) abba += order[i] == 0;
    EXPECT_EQ(abba, 5u);
  }
  EXPECT_NE(interleave(2, 40, 1, 1), interleave(2, 40, 1, 2));
  for (std::uint32_t n = 1; n < 12; ++n)
    for (const std::uint32_t run : {1u, 5u}) {
      const auto order = interleave(2, n, run, 1);
      EXPECT_EQ(std::count(order.begin(), order.end(), 0u), n);
      EXPECT_EQ(std::count(order.begin(), order.end(), 1u), n);
    }
  EXPECT_EQ(interleave(1, 7, 1, 1).size(), 7u);
}

TEST(PoisonUnits, are_storage_bindings_and_regions_that_pointers_reach) {
  bundle::Dispatch d;
  d.regions.resize(3);
  for (std::uint32_t i = 0; i < 3; ++i) {
    d.regions[i].id = i;
    d.regions[i].size = 100;
  }
  using bundle::BindingKind;
  d.bindings = {{0, 0, 0, BindingKind::storage_buffer, 0, 0, 40},
                {0, 1, 0, BindingKind::storage_buffer, 0, 40, 200},
                {0, 2, 0, BindingKind::storage_buffer, 0, 0, 40},
                {0, 3, 0, BindingKind::uniform_buffer, 1, 0, 100}};
  const auto units = poison_units(d);
  ASSERT_EQ(units.size(), 3u);
  EXPECT_EQ(units[1].offset, 40u);
  EXPECT_EQ(units[1].size, 60u);  // never past the region
  EXPECT_EQ(units[2].region, 2u);
}

TEST(Deadline, says_what_it_was_spent_on) {
  const Deadline late(0);
  const auto status = late.check("timing");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::timeout);
  EXPECT_NE(status.error().what.find("timing"), std::string::npos);
  EXPECT_TRUE(Deadline(100).check("x"));
  EXPECT_LE(Deadline(100).timeout_ns(2), 2000000000u);
}

}  // namespace
}  // namespace klab::worker
