// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

#include "validate/reference_file.h"
#include "validate/test_bytes.h"
#include "validate/values.h"

namespace klab::validate {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Lane plain(ElementType type, std::uint64_t count, std::uint64_t offset = 0) {
  return {type, offset, size_of(type), 1, count, 0};
}
Layout one_array(ElementType type, std::uint64_t elements, std::vector<std::uint64_t> shape = {}) {
  const std::uint64_t sizes[] = {elements * size_of(type)};
  return Layout({{.size = sizes[0], .stride = size_of(type), .fields = {{0, type, 1, ""}}, .shape = std::move(shape)}}, sizes);
}
constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

TEST(Element, values_of_all_types_are_read_as_they_are) {
  const std::uint16_t half[] = {0x3c00, 0xc000, 0x0001, 0x7bff, 0x7c00, 0x8000};
  const double wanted[] = {1, -2, 0x1p-24, 65504, HUGE_VAL, -0.0};
  for (int i = 0; i < 6; ++i)
    EXPECT_EQ(value_of(ElementType::f16, reinterpret_cast<const std::byte*>(&half[i])), wanted[i]) << i;
  const std::uint16_t brain = 0xc049;  // -3.140625
  EXPECT_EQ(value_of(ElementType::bf16, reinterpret_cast<const std::byte*>(&brain)), -3.140625);
  const std::int16_t word = -5;
  EXPECT_EQ(value_text(ElementType::i16, reinterpret_cast<const std::byte*>(&word)), "-5");
  const std::uint64_t large = 0xffffffffffffffffu;
  EXPECT_EQ(value_text(ElementType::u64, reinterpret_cast<const std::byte*>(&large)), "18446744073709551615");
}

TEST(Element, types_are_parsed_with_their_shapes_and_refused_with_a_hint) {
  const auto t = parse_type("f16:4096x32");
  ASSERT_TRUE(t);
  EXPECT_EQ(t->type, ElementType::f16);
  EXPECT_THAT(t->shape, ElementsAre(4096u, 32u));
  for (const char* bad : {"", "float", "f16:", "f16:0", "f16:4x", "f16:4xa", "f16:-4"}) {
    const auto r = parse_type(bad);
    ASSERT_FALSE(r) << bad;
    EXPECT_FALSE(r.error().hint.empty());
  }
}

TEST(Layout, odd_places_and_overlaps_are_left_out_and_said) {
  const std::uint64_t sizes[] = {100};
  const Field f{0, ElementType::f32, 1, ""};
  EXPECT_EQ(Layout({{.offset = 2, .size = 8, .stride = 4, .fields = {f}}}, sizes).notes().size(), 1u);
  EXPECT_EQ(Layout({{.offset = 200, .size = 8, .stride = 4, .fields = {f}}}, sizes).notes().size(), 1u);
  EXPECT_EQ(Layout({{.region = 3, .size = 8, .stride = 4, .fields = {f}}}, sizes).notes().size(), 1u);
  const Layout l({{.size = 40, .stride = 4, .fields = {f}}, {.size = 100, .stride = 4, .fields = {{0, ElementType::u32, 1, ""}}}}, sizes);
  ASSERT_EQ(l.ranges().size(), 1u) << "what is said first holds";
  EXPECT_EQ(l.floats(0)[0].count, 10u);
}

TEST(Layout, records_have_lanes_whose_elements_are_found_from_any_offset) {
  const std::uint64_t sizes[] = {16 * 10 + 8};
  const Layout l({{.size = sizes[0],
                   .stride = 16,
                   .fields = {{0, ElementType::f32, 3, "position"}, {12, ElementType::u32, 1, "id"}}}},
                 sizes);
  ASSERT_EQ(l.floats(0).size(), 1u);
  const Lane& lane = l.floats(0)[0];
  EXPECT_EQ(lane.count, 32u) << "two of the last record's three fit";
  for (std::uint64_t from = 0; from < sizes[0]; ++from) {
    const std::uint64_t i = lane.first_from(from);
    if (i < lane.count) EXPECT_GE(lane.at(i), from);
    if (i > 0) EXPECT_LT(lane.at(i - 1), from);
  }
  EXPECT_EQ(place_of(l, 0, 16 * 3 + 4).text, "[3].position[1]");
  EXPECT_EQ(place_of(l, 0, 16 * 3 + 12).text, "[3].id");
  EXPECT_EQ(describe(l.ranges()[0]), "{f32x3 position, u32 id}");
  // Only what is floating-point has a tolerance.
  EXPECT_EQ(Comparator(Level::numeric, l).float_bytes(0, 0, 32).count(), 24u);
}

TEST(Layout, an_element_is_named_by_its_place_in_the_shape) {
  const Layout l = one_array(ElementType::f16, 64, {4, 16});
  EXPECT_EQ(place_of(l, 0, 2 * (16 * 3 + 7)).text, "[3,7]");
  EXPECT_EQ(describe(l.ranges()[0]), "f16 4x16");
}

bool takes(float expected, float actual, Tolerance t) {
  ValueStats s;
  return !compare_values(plain(ElementType::f32, 1), t, 0, bytes_of<float>({expected}), bytes_of<float>({actual}), {}, s);
}

TEST(Values, masks_of_nan_and_infinity_must_be_equal) {
  const Tolerance loose{1e30, 1e30};
  EXPECT_FALSE(takes(1, kNan, loose)) << "a comparison with NaN is false: it must be turned so that this fails";
  EXPECT_FALSE(takes(kNan, 1, loose));
  EXPECT_FALSE(takes(1, kInf, loose));
  EXPECT_FALSE(takes(kInf, 1, loose));
  EXPECT_FALSE(takes(kInf, -kInf, loose));
  EXPECT_TRUE(takes(kNan, -kNan, {})) << "which NaN it is says nothing";
  EXPECT_TRUE(takes(-kInf, -kInf, {}));
}

TEST(Values, negative_references_are_no_easier_than_positive_ones) {
  EXPECT_FALSE(takes(-100, 100, {0, 0.01}));
  EXPECT_FALSE(takes(-100, -102, {0, 0.01}));
  EXPECT_TRUE(takes(-100, -100.5f, {0, 0.01}));
  EXPECT_FALSE(takes(0, 1e-6f, {0, 0.5})) << "nothing is near zero in relative terms";
  EXPECT_TRUE(takes(0, -0.0f, {}));
  EXPECT_FALSE(takes(1, 1.5f, {std::numeric_limits<double>::quiet_NaN(), 0})) << "no bound accepts nothing";
}

TEST(Values, distance_in_ulps_crosses_zero_and_fills_its_bucket) {
  const float a = 1.0f, b = std::nextafter(std::nextafter(std::nextafter(1.0f, 2.0f), 2.0f), 2.0f);
  const float tiny = std::numeric_limits<float>::denorm_min(), minus = -tiny;
  auto distance = [](const float& x, const float& y) {
    return ulp_distance(ElementType::f32, reinterpret_cast<const std::byte*>(&x), reinterpret_cast<const std::byte*>(&y));
  };
  EXPECT_EQ(distance(a, b), 3u);
  EXPECT_EQ(distance(tiny, minus), 2u);
  EXPECT_EQ(distance(a, kNan), UINT64_MAX);
  ValueStats s;
  (void)compare_values(plain(ElementType::f32, 3), {}, 0, bytes_of<float>({a, a, 1}), bytes_of<float>({a, b, kNan}), {}, s);
  EXPECT_EQ(s.ulps[0], 1u);
  EXPECT_EQ(s.ulps[3], 1u) << ulp_bucket_name(3);
  EXPECT_EQ(s.ulps[kUlpBuckets - 1], 1u);
  EXPECT_EQ(s.max_ulp, 3u);
  EXPECT_EQ(s.beyond, 2u);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < 6; ++i) names.push_back(ulp_bucket_name(i));
  EXPECT_THAT(names, ElementsAre("0", "1", "2", "3-4", "5-8", "9-16"));
  EXPECT_EQ(Json(s).get<ValueStats>().ulps, s.ulps);
}

TEST(Values, elements_of_two_chunks_are_counted_once) {
  std::vector<float> v(1000), w;
  std::iota(v.begin(), v.end(), 1.0f);
  w = v;
  w[249] += 1, w[250] += 1, w[999] += 1;
  const auto e = bytes_of(v), a = bytes_of(w);
  ValueStats s;
  for (std::size_t at = 0; at < e.size(); at += 1000)
    (void)compare_values(plain(ElementType::f32, 1000), {}, at, ByteView(e).subspan(at, 1000), ByteView(a).subspan(at, 1000), {}, s);
  EXPECT_EQ(s.elements, 1000u);
  EXPECT_EQ(s.beyond, 3u);
}

/// Values as kernels give them, as elements of a type.
ByteBuffer results(ElementType type, std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  ByteBuffer b(n * size_of(type));
  for (std::size_t i = 0; i < n; ++i) {
    const double d = normal(random);
    const float v = static_cast<float>(d);
    std::uint32_t bits = 0;
    std::memcpy(&bits, &v, 4);
    const auto brain = static_cast<std::uint16_t>(bits >> 16);
    // A half from the float's bits, without its rounding.
    const int exponent = static_cast<int>(bits >> 23 & 0xff) - 112;
    const auto half = static_cast<std::uint16_t>(bits >> 16 & 0x8000u |
                                                 (exponent > 0 ? static_cast<unsigned>(exponent) << 10 | (bits >> 13 & 0x3ffu) : 0));
    const void* from = type == ElementType::f64 ? static_cast<const void*>(&d)
                       : type == ElementType::f32 ? static_cast<const void*>(&v)
                       : type == ElementType::bf16 ? static_cast<const void*>(&brain) : &half;
    std::memcpy(b.data() + i * size_of(type), from, size_of(type));
  }
  return b;
}

TEST(Values, default_tolerances_turn_half_precision_down_for_every_type) {
  for (const ElementType type : {ElementType::f16, ElementType::bf16, ElementType::f32, ElementType::f64}) {
    const auto expected = results(type, 4096, 7);
    ValueStats s;
    (void)compare_values(plain(type, 4096), {}, 0, expected, expected, {}, s);
    const Tolerance t = default_tolerance(type, std::sqrt(s.sum_of_squares / 4096));
    auto halved = expected;
    for (std::size_t i = 0; i < 4096; ++i) halve_precision(type, halved.data() + i * size_of(type));
    const Comparator c = [&] {
      Comparator made(Level::numeric, one_array(type, 4096));
      made.set_tolerance(0, type, t);
      return made;
    }();
    EXPECT_FALSE(c.accepts(0, 0, expected, halved, {})) << to_string(type);
    EXPECT_TRUE(c.accepts(0, 0, expected, expected, {})) << to_string(type);
  }
}

TEST(Values, sums_in_another_order_pass_the_default_and_differ_in_bits) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> forwards(256), backwards(256);
  for (std::size_t k = 0; k < forwards.size(); ++k) {
    std::vector<float> terms(4096);
    for (float& x : terms) x = uniform(random);
    forwards[k] = std::accumulate(terms.begin(), terms.end(), 0.0f);
    backwards[k] = std::accumulate(terms.rbegin(), terms.rend(), 0.0f);
  }
  const auto e = bytes_of(forwards), a = bytes_of(backwards);
  ValueStats s;
  (void)compare_values(plain(ElementType::f32, 256), {}, 0, e, e, {}, s);
  Comparator numeric(Level::numeric, one_array(ElementType::f32, 256));
  numeric.set_tolerance(0, ElementType::f32, default_tolerance(ElementType::f32, std::sqrt(s.sum_of_squares / 256)));
  EXPECT_TRUE(numeric.accepts(0, 0, e, a, {}));
  const Comparator bitwise(Level::bitwise, one_array(ElementType::f32, 256));
  EXPECT_FALSE(bitwise.accepts(0, 0, e, a, {}));
  RegionReport report;
  bitwise.report(0, e.size(), 0, e, a, {}, report);
  EXPECT_GT(report.values.different, 100u);
  EXPECT_EQ(report.values.different + report.values.ulps[0], 256u) << "the histogram counts every element";
}

TEST(Comparator, integers_beside_floats_stay_exact) {
  const std::uint64_t sizes[] = {32};
  const Layout l({{.size = 32, .stride = 8, .fields = {{0, ElementType::f32, 1, "x"}, {4, ElementType::u32, 1, "n"}}}}, sizes);
  Comparator c(Level::numeric, l);
  c.set_tolerance(0, ElementType::f32, {0.5, 0});
  struct Pair {
    float x;
    std::uint32_t n;
  };
  const std::vector<Pair> e(4, Pair{1, 7});
  auto a = e;
  a[2].x = 1.25f;
  EXPECT_TRUE(c.accepts(0, 0, bytes_of(e), bytes_of(a), {}));
  a[2].n = 8;
  EXPECT_FALSE(c.accepts(0, 0, bytes_of(e), bytes_of(a), {}));
  RegionReport r;
  c.report(0, 32, 0, bytes_of(e), bytes_of(a), {}, r);
  EXPECT_EQ(r.wrong, 1u) << "one byte of one integer";
  EXPECT_EQ(r.place, "[2].n");
  EXPECT_EQ(r.expected_value, "7");
  EXPECT_EQ(r.actual_value, "8");
}

TEST(Comparator, a_masked_element_is_left_out_as_a_whole) {
  Comparator c(Level::numeric, one_array(ElementType::f32, 4));
  Mask ignore(16);
  ignore.set(5);
  EXPECT_TRUE(c.accepts(0, 0, bytes_of<float>({1, 2, 3, 4}), bytes_of<float>({1, 9, 3, 4}), [&] {
    Mask whole = ignore;
    whole.widen_to_elements();
    return whole;
  }()));
}

TEST(Map, one_wrong_element_of_many_shows_and_lies_where_it_should) {
  DifferenceMap m(1024 * 1024, {1024, 1024});
  m.add(1023 * 1024 + 512);
  const Json j = m.json();
  EXPECT_EQ(j["rows"], 16);
  EXPECT_EQ(j["columns"], 64);
  for (int r = 0; r < 16; ++r)
    for (int c = 0; c < 64; ++c) EXPECT_EQ(j["shares"][r * 64 + c] != 0, r == 15 && c == 32) << r << "," << c;
  DifferenceMap small(3, {});
  small.add(0), small.add(1), small.add(2);
  EXPECT_EQ(small.json()["shares"], Json({1000, 1000, 1000}));
}

TEST(Tolerance, is_parsed_and_nonsense_refused) {
  const auto t = parse_tolerance("abs=1e-5,rel=0.25");
  ASSERT_TRUE(t);
  EXPECT_EQ(t->absolute, 1e-5);
  EXPECT_EQ(t->relative, 0.25);
  for (const char* bad : {"1e-5", "abs=", "abs=nan", "rel=-1", "abs=inf", "abs=1e-5,rel", "abs=1x"})
    EXPECT_FALSE(parse_tolerance(bad)) << bad;
}

TEST(Reference, npy_and_plain_files_give_the_same_values) {
  const std::vector<double> values{1, -2.5, 1e300};
  const auto plain_bytes = bytes_of(values);
  std::string header = "{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }";
  header.resize(118, ' ');
  header.back() = '\n';
  std::string npy = std::string("\x93NUMPY\x01\x00", 8) + std::string("\x76\x00", 2) + header;
  npy.append(reinterpret_cast<const char*>(plain_bytes.data()), plain_bytes.size());
  const auto a = parse_reference(plain_bytes, "x"), b = parse_reference(std::as_bytes(std::span(npy)), "x.npy");
  ASSERT_TRUE(a);
  ASSERT_TRUE(b) << b.error().what;
  EXPECT_EQ(*a, values);
  EXPECT_EQ(*b, values);
  std::string other = npy;
  other.replace(other.find("<f8"), 3, "<f4");
  EXPECT_FALSE(parse_reference(std::as_bytes(std::span(other)), "x.npy"));
  for (std::size_t cut : {7u, 9u, 11u, 50u, 130u})
    EXPECT_FALSE(parse_reference(std::as_bytes(std::span(npy)).first(cut), "x.npy")) << cut;
  EXPECT_FALSE(parse_reference(plain_bytes, "x", 2)) << "a cap";
}

TEST(Reference, twice_the_baselines_error_is_the_most) {
  Error64 baseline, good, bad, nan;
  for (int i = 0; i < 100; ++i) {
    baseline.add(i, i + 1e-3);
    good.add(i, i - 1.9e-3);
    bad.add(i, i + 2.1e-3);
    nan.add(i, i == 7 ? std::nan("") : i + 1e-3);
  }
  EXPECT_TRUE(good.within(baseline, 2));
  EXPECT_FALSE(bad.within(baseline, 2));
  EXPECT_FALSE(nan.within(baseline, 2));
}

}  // namespace
}  // namespace klab::validate
