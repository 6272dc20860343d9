// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "validate/judge.h"
#include "validate/mutate.h"
#include "validate/oracle.h"
#include "validate/poison.h"
#include "validate/test_bytes.h"
#include "validate/variation.h"

namespace klab::validate {
namespace {

using ::testing::HasSubstr;

template <class T>
std::vector<T> values_of(ByteView b) {
  std::vector<T> v(b.size() / sizeof(T));
  std::memcpy(v.data(), b.data(), v.size() * sizeof(T));
  return v;
}
ByteBuffer noise(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  ByteBuffer b(n);
  for (auto& x : b) x = static_cast<std::byte>(random());
  return b;
}

TEST(Mask, counts_runs_and_widens_to_whole_elements) {
  Mask m(131);
  for (const std::size_t i : {1u, 64u, 65u, 130u}) m.set(i);
  EXPECT_EQ(m.count(), 4u);
  const auto r = runs(m);
  ASSERT_EQ(r.size(), 3u);
  EXPECT_EQ(r[1].offset, 64u);
  EXPECT_EQ(r[1].size, 2u);
  m.widen_to_elements();
  // 0-3, 64-67, and the ragged end 128-130.
  EXPECT_EQ(m.count(), 11u);
  EXPECT_EQ(m.count_elements(), 3u);
  EXPECT_FALSE(m.test(131));
  Mask other(131);
  other.set(0);
  m.remove(other);
  EXPECT_FALSE(m.test(0));
}

TEST(Mask, a_range_is_set_as_its_bits_are) {
  for (const auto [from, to] : {std::pair{0u, 0u}, {0u, 64u}, {3u, 200u}, {63u, 65u}, {128u, 200u}}) {
    Mask range(200), bits(200);
    range.set_range(from, to);
    for (std::size_t i = from; i < to; ++i) bits.set(i);
    EXPECT_TRUE(std::equal(range.words().begin(), range.words().end(), bits.words().begin())) << from << " " << to;
  }
}

TEST(Compare, agrees_with_a_byte_loop_on_random_arrays_and_masks) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    const std::size_t n = 1 + random() % 20000;
    auto a = noise(n, seed), b = a;
    Mask ignore(n);
    for (int k = 0; k < 50; ++k) b[random() % n] ^= std::byte{1};
    for (int k = 0; k < 500; ++k) ignore.set(random() % n);
    std::uint64_t count = 0, first = n;
    for (std::size_t i = 0; i < n; ++i)
      if (a[i] != b[i] && !ignore.test(i)) {
        ++count;
        first = std::min<std::uint64_t>(first, i);
      }
    const auto d = compare(a, b, ignore);
    EXPECT_EQ(d.count, count);
    if (count != 0) {
      EXPECT_EQ(d.first, first);
    }
    EXPECT_EQ(differing(a, b).count(), compare(a, b).count);
  }
}

struct Poisoned {
  ByteBuffer a, b;
  Mask all;
};
Poisoned poisoned(std::size_t n, std::uint64_t offset) {
  Poisoned p{ByteBuffer(n), ByteBuffer(n), Mask(n)};
  fill_poison(p.a, 0, offset);
  fill_poison(p.b, 1, offset);
  for (std::size_t i = 0; i < n; ++i) p.all.set(i);
  return p;
}

TEST(Poison, no_byte_is_the_same_in_both) {
  for (std::uint64_t i = 0; i < 8; ++i) EXPECT_NE(poison_byte(0, i), poison_byte(1, i));
}

TEST(Poison, tells_untouched_written_and_dependent_bytes_apart) {
  auto p = poisoned(64, 4096);
  for (auto* run : {&p.a, &p.b}) {
    for (std::size_t i = 16; i < 24; ++i) (*run)[i] = std::byte{7};   // written without looking
    for (std::size_t i = 32; i < 36; ++i) (*run)[i] ^= std::byte{1};  // computed from what was there
  }
  const auto c = classify(p.a, p.b, p.all, 4096);
  EXPECT_EQ(c.written.count(), 12u);
  EXPECT_EQ(c.write_only.count(), 8u);
  EXPECT_TRUE(c.write_only.test(16) && c.write_only.test(23));
}

TEST(Poison, a_byte_that_agrees_by_chance_in_a_dependent_element_is_not_write_only) {
  auto p = poisoned(16, 0);
  for (auto* run : {&p.a, &p.b}) {
    (*run)[0] ^= std::byte{1};
    for (std::size_t i = 1; i < 8; ++i) (*run)[i] = std::byte{9};  // the rest of a 64-bit sum
  }
  EXPECT_FALSE(classify(p.a, p.b, p.all, 0).write_only.any());
}

TEST(Poison, a_float_that_is_added_to_depends_on_the_poison) {
  for (const float x : {0.0f, 1.0f, -3.5f, 1e-3f, 1e6f}) {
    auto p = poisoned(8, 0);
    for (auto* run : {&p.a, &p.b}) {
      auto v = values_of<float>(*run);
      v[0] += x;
      v[1] = v[1] * 0.5f + x;
      *run = bytes_of(v);
    }
    EXPECT_FALSE(classify(p.a, p.b, p.all, 0).write_only.any()) << x;
  }
}

OracleInput float_case(std::vector<float> image, std::vector<float> expected) {
  OracleInput in;
  in.images = {{bytes_of(image)}};
  in.expected = {bytes_of(expected)};
  in.written = {Mask(expected.size() * 4)};
  for (std::size_t i = 0; i < expected.size() * 4; ++i) in.written[0].set(i);
  in.ignore = {Mask()};
  return in;
}

TEST(Oracle, catches_all_bad_variants_of_an_ordinary_kernel) {
  auto in = float_case({0, 0, 0}, {1, 2, 3});
  in.inputs = {{bytes_of(std::vector<float>{4, 5, 6})}};
  for (const auto& [name, caught] : run_oracle(in)) EXPECT_TRUE(caught) << name;
  EXPECT_EQ(uncaught(run_oracle(in)), "");
}

TEST(Oracle, says_that_doing_nothing_passes_when_the_answer_is_there_already) {
  auto in = float_case({1, 2, 3}, {1, 2, 3});
  EXPECT_FALSE(run_oracle(in).at("no-op"));
  EXPECT_EQ(uncaught(run_oracle(in)), "no-op");
  in.images.push_back({bytes_of(std::vector<float>{9, 9, 9})});  // a poisoned image shows it
  EXPECT_TRUE(run_oracle(in).at("no-op"));
}

TEST(Oracle, says_that_zeros_pass_when_zeros_are_the_answer) {
  EXPECT_EQ(uncaught(run_oracle(float_case({1, 2}, {0, 0}))), "zeros");
}

TEST(Oracle, a_copy_kernel_is_not_blocked_by_the_copy) {
  auto in = float_case({0, 0}, {4, 5});
  in.inputs = {{bytes_of(std::vector<float>{4, 5})}};
  EXPECT_EQ(run_oracle(in).count("copy of an input"), 0u) << "it is what the kernel does";
  EXPECT_EQ(uncaught(run_oracle(in)), "");
}

TEST(Oracle, what_the_mask_hides_does_not_count_as_caught) {
  auto in = float_case({0}, {1});
  in.ignore[0] = Mask(4);
  for (std::size_t i = 0; i < 4; ++i) in.ignore[0].set(i);
  EXPECT_FALSE(run_oracle(in).at("no-op"));
}

TEST(Mutate, is_reproducible_and_differs_by_seed) {
  for (const auto kind : {MutationKind::permute_words, MutationKind::float_values,
                          MutationKind::small_integers, MutationKind::scramble_bytes}) {
    std::vector<float> floats(100);
    std::vector<std::uint32_t> ints(100);
    for (std::uint32_t i = 0; i < 100; ++i) {
      floats[i] = static_cast<float>(i + 1);
      ints[i] = i;
    }
    const auto original = kind == MutationKind::small_integers ? bytes_of(ints) : bytes_of(floats);
    auto a = original, b = original, c = original;
    mutate(a, {kind, {{}}, 1}, 0, 0);
    mutate(b, {kind, {{}}, 1}, 0, 0);
    mutate(c, {kind, {{}}, 2}, 0, 0);
    EXPECT_EQ(a, b) << to_string(kind);
    EXPECT_NE(a, c) << to_string(kind);
    EXPECT_NE(a, original) << to_string(kind);
  }
}

TEST(Mutate, permuting_keeps_the_words_and_pointers_stay) {
  std::vector<std::uint32_t> v(64);
  for (std::uint32_t i = 0; i < 64; ++i) v[i] = i;
  auto b = bytes_of(v);
  Mask keep(b.size());
  for (std::size_t i = 16; i < 24; ++i) keep.set(i);
  mutate(b, {MutationKind::permute_words, {{.region = 3}}, 5}, 3, 1 << 20, keep);
  auto after = values_of<std::uint32_t>(b);
  EXPECT_EQ(after[4], 4u);
  EXPECT_EQ(after[5], 5u);
  std::sort(after.begin(), after.end());
  EXPECT_EQ(after, v);
}

TEST(Mutate, floats_stay_finite_and_near) {
  std::mt19937 random(1);
  std::vector<float> v(1000);
  for (auto& x : v)
    x = std::ldexp(1.0f + static_cast<float>(random() % 1000) / 1000, static_cast<int>(random() % 60) - 30);
  v[0] = 0;
  v[1] = INFINITY;
  auto b = bytes_of(v);
  mutate(b, {MutationKind::float_values, {{}}, 3}, 0, 0);
  const auto after = values_of<float>(b);
  EXPECT_EQ(after[0], 0.0f);
  EXPECT_EQ(after[1], INFINITY);
  for (std::size_t i = 2; i < v.size(); ++i) {
    const float ratio = std::fabs(after[i] / v[i]);
    EXPECT_TRUE(ratio == 0.0f || ratio == 0.5f || ratio == 1.0f || ratio == 2.0f) << ratio;
  }
}

TEST(Mutate, knows_floats_when_it_sees_them) {
  EXPECT_TRUE(looks_like_floats(bytes_of(std::vector<float>{0.5f, -2.0f, 0.0f, 1e6f})));
  std::vector<std::uint32_t> small(100);
  for (std::uint32_t i = 0; i < 100; ++i) small[i] = i;
  EXPECT_FALSE(looks_like_floats(bytes_of(small)));
  EXPECT_FALSE(looks_like_floats(bytes_of(std::vector<std::uint32_t>(100))));
}

TEST(Variation, whole_elements_vary_and_the_rest_must_agree_once) {
  Variation v;
  const ByteBuffer wanted = bytes_of(std::vector<std::uint32_t>{1, 2, 3, 4});
  v.add_run(bytes_of(std::vector<std::uint32_t>{1, 20, 3, 5}), wanted);
  EXPECT_EQ(v.never_agreed().count(), 2u);
  v.add_run(bytes_of(std::vector<std::uint32_t>{1, 21, 3, 5}), wanted);
  EXPECT_EQ(v.varying().count(), 4u);
  EXPECT_TRUE(v.varying().test(4) && v.varying().test(7));
  EXPECT_EQ(v.never_agreed().count(), 1u);
  EXPECT_TRUE(v.never_agreed().test(12));
}

Evidence good() {
  Evidence e;
  e.oracle = {{"no-op", true}, {"zeros", true}, {"ones", true}, {"shuffle", true}};
  e.launches_checked = 135;
  return e;
}

TEST(Judge, correct_needs_every_piece_of_evidence) {
  EXPECT_EQ(judge(good()).correctness, Correctness::correct);
  auto e = good();
  e.run_failed = "device_fault: lost";
  EXPECT_EQ(judge(e).correctness, Correctness::failed);
  e = good();
  e.wrong = 1;
  EXPECT_EQ(judge(e).correctness, Correctness::incorrect);
  e = good();
  e.outside = "it wrote outside";
  EXPECT_EQ(judge(e).correctness, Correctness::incorrect);
  e = good();
  e.wrong_launch = "launch 7 was wrong";
  EXPECT_EQ(judge(e).correctness, Correctness::incorrect);
  e = good();
  e.varying_elements = 1;
  e.elements = 10;
  EXPECT_EQ(judge(e).correctness, Correctness::not_verified);
  e = good();
  e.not_judged = "nothing was written";
  EXPECT_EQ(judge(e).correctness, Correctness::not_verified);
  e = good();
  e.mutated_difference = "it differs on region 0";
  EXPECT_EQ(judge(e).correctness, Correctness::incorrect);
  e.mutation_is_bounded = false;  // what it was given may mean nothing to the kernel
  EXPECT_EQ(judge(e).correctness, Correctness::not_verified);
  e.mutation_needed = true;
  EXPECT_EQ(judge(e).correctness, Correctness::incorrect);
}

TEST(Judge, an_oracle_that_misses_a_bad_variant_allows_no_correct) {
  for (const char* name : kMustCatch) {
    auto e = good();
    e.oracle[name] = false;
    EXPECT_EQ(judge(e).correctness, Correctness::not_verified) << name;
    e.oracle.erase(name);
    EXPECT_EQ(judge(e).correctness, Correctness::not_verified) << name;
  }
  auto e = good();
  e.oracle["half precision"] = false;  // the tolerance takes anything
  EXPECT_EQ(judge(e).correctness, Correctness::not_verified);
}

TEST(Judge, a_difference_is_incorrect_even_where_some_elements_vary) {
  auto e = good();
  e.varying_elements = 5;
  e.wrong = 2;
  e.where = "first in region 1";
  EXPECT_EQ(judge(e).correctness, Correctness::incorrect);
  EXPECT_THAT(judge(e).reason, HasSubstr("region 1"));
}

TEST(Judge, every_verdict_has_a_reason) {
  EXPECT_FALSE(judge({}).reason.empty());
  EXPECT_EQ(judge({}).correctness, Correctness::not_verified);
  EXPECT_FALSE(judge(good()).reason.empty());
}

}  // namespace
}  // namespace klab::validate
