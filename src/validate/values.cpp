// SPDX-License-Identifier: Apache-2.0
#include "validate/values.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

namespace klab::validate {
namespace {

constexpr double kDefaultShare = 0.66;  // of the significant bits
constexpr std::uint32_t kMapRows = 16, kMapColumns = 64;
constexpr std::size_t kShown = 16;  // bytes

std::uint64_t bits_of(ElementType type, const std::byte* p) {
  std::uint64_t v = 0;
  std::memcpy(&v, p, size_of(type));
  return v;
}

/// Bits as an integer whose order is the order of the values; -0 and +0 are the same.
std::int64_t ordered(ElementType type, std::uint64_t bits) {
  const unsigned width = size_of(type) * 8;
  const std::uint64_t sign = 1ull << (width - 1);
  const auto magnitude = static_cast<std::int64_t>(bits & (sign - 1));
  return (bits & sign) != 0 ? -magnitude : magnitude;
}

std::size_t ulp_bucket(std::uint64_t ulp) {
  if (ulp <= 2) return static_cast<std::size_t>(ulp);
  return std::min<std::size_t>(kUlpBuckets - 2, static_cast<std::size_t>(std::bit_width(ulp - 1)) + 1);
}

bool touched(const Mask& ignore, std::uint64_t at, std::uint32_t size) {
  if (ignore.size() == 0) return false;
  for (std::uint32_t k = 0; k < size; ++k)
    if (ignore.test(at + k)) return true;
  return false;
}

/// Whether one element is taken. `stats` may be nullptr.
bool take(ElementType type, const std::byte* e, const std::byte* a, const Tolerance& t, ValueStats* stats) {
  const double expected = value_of(type, e), actual = value_of(type, a);
  if (std::isnan(expected) || std::isnan(actual)) {
    const bool same = std::isnan(expected) && std::isnan(actual);
    if (stats != nullptr && !same) ++stats->nan_mismatch, ++stats->ulps[kUlpBuckets - 1];
    if (stats != nullptr && same) ++stats->ulps[0];
    return same;
  }
  if (std::isinf(expected) || std::isinf(actual)) {
    const bool same = expected == actual;
    if (stats != nullptr && !same) ++stats->infinity_mismatch, ++stats->ulps[kUlpBuckets - 1];
    if (stats != nullptr && same) ++stats->ulps[0];
    return same;
  }
  const double difference = std::abs(actual - expected), size = std::abs(expected);
  if (stats != nullptr) {
    stats->sum_of_squares += expected * expected;
    stats->max_absolute = std::max(stats->max_absolute, difference);
    if (difference != 0)
      stats->max_relative = std::max(stats->max_relative, size != 0 ? difference / size : HUGE_VAL);
    const std::uint64_t ulp = ulp_distance(type, e, a);
    stats->max_ulp = std::max(stats->max_ulp, ulp);
    ++stats->ulps[ulp_bucket(ulp)];
  }
  return difference <= t.absolute + t.relative * size;  // false for NaN: a bound that is none accepts nothing
}

}  // namespace

void to_json(Json& j, const Tolerance& v) { j = {{"absolute", v.absolute}, {"relative", v.relative}}; }
void from_json(const Json& j, Tolerance& v) {
  read_optional(j, "absolute", v.absolute);
  read_optional(j, "relative", v.relative);
}

Tolerance default_tolerance(ElementType type, double root_mean_square) {
  const double relative = std::exp2(-kDefaultShare * precision_of(type));
  return {std::isfinite(root_mean_square) ? relative * root_mean_square : 0, relative};
}

Result<Tolerance> parse_tolerance(std::string_view text) {
  const std::string whole(text);
  Tolerance t;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    double value = 0;
    const bool absolute = part.substr(0, 4) == "abs=", relative = part.substr(0, 4) == "rel=";
    const auto [end, error] = std::from_chars(part.data() + std::min<std::size_t>(4, part.size()), part.data() + part.size(), value);
    if ((!absolute && !relative) || error != std::errc{} || end != part.data() + part.size() || !(value >= 0) ||
        std::isinf(value))
      return fail(ErrorCode::usage, fmt::format("tolerance {}: \"{}\" is no bound", whole, part),
                  "abs=1e-5, rel=1e-4, or both with a comma between");
    (absolute ? t.absolute : t.relative) = value;
  }
  return t;
}

std::string ulp_bucket_name(std::size_t bucket) {
  if (bucket <= 2) return fmt::format("{}", bucket);
  if (bucket == kUlpBuckets - 1) return "nan/inf";
  const std::uint64_t low = (1ull << (bucket - 2)) + 1, high = 1ull << (bucket - 1);
  return bucket == kUlpBuckets - 2 ? fmt::format(">{}", low - 1) : fmt::format("{}-{}", low, high);
}

void ValueStats::add(const ValueStats& o) {
  elements += o.elements, different += o.different, beyond += o.beyond;
  nan_mismatch += o.nan_mismatch, infinity_mismatch += o.infinity_mismatch;
  max_absolute = std::max(max_absolute, o.max_absolute), max_relative = std::max(max_relative, o.max_relative);
  max_ulp = std::max(max_ulp, o.max_ulp);
  sum_of_squares += o.sum_of_squares;
  for (std::size_t i = 0; i < ulps.size(); ++i) ulps[i] += o.ulps[i];
}

void to_json(Json& j, const ValueStats& v) {
  Json histogram = Json::object();
  for (std::size_t i = 0; i < v.ulps.size(); ++i)
    if (v.ulps[i] != 0) histogram[ulp_bucket_name(i)] = v.ulps[i];
  j = {{"elements", v.elements},
       {"different", v.different},
       {"beyond_tolerance", v.beyond},
       {"nan_mismatch", v.nan_mismatch},
       {"infinity_mismatch", v.infinity_mismatch},
       {"max_absolute", v.max_absolute},
       {"max_relative", v.max_relative},
       {"max_ulp", v.max_ulp},
       {"ulps", histogram}};
  // JSON has no infinity: an expected zero that came out as something else.
  if (!std::isfinite(v.max_relative)) j["max_relative"] = nullptr;
}
void from_json(const Json& j, ValueStats& v) {
  read_required(j, "elements", v.elements);
  read_required(j, "different", v.different);
  read_required(j, "beyond_tolerance", v.beyond);
  read_optional(j, "nan_mismatch", v.nan_mismatch);
  read_optional(j, "infinity_mismatch", v.infinity_mismatch);
  read_optional(j, "max_absolute", v.max_absolute);
  if (j.contains("max_relative") && j["max_relative"].is_null())
    v.max_relative = HUGE_VAL;
  else
    read_optional(j, "max_relative", v.max_relative);
  read_optional(j, "max_ulp", v.max_ulp);
  if (j.contains("ulps") && j["ulps"].is_object())
    for (std::size_t i = 0; i < v.ulps.size(); ++i) read_optional(j["ulps"], ulp_bucket_name(i).c_str(), v.ulps[i]);
}

std::uint64_t ulp_distance(ElementType type, const std::byte* a, const std::byte* b) {
  if (std::isnan(value_of(type, a)) || std::isnan(value_of(type, b))) return UINT64_MAX;
  const std::int64_t x = ordered(type, bits_of(type, a)), y = ordered(type, bits_of(type, b));
  return x > y ? static_cast<std::uint64_t>(x) - static_cast<std::uint64_t>(y)
               : static_cast<std::uint64_t>(y) - static_cast<std::uint64_t>(x);
}

void halve_precision(ElementType type, std::byte* element) {
  const std::uint32_t precision = precision_of(type), drop = precision / 2;
  const double value = value_of(type, element);
  if (precision == 0 || !std::isfinite(value)) return;
  // Rounding the bits rounds the magnitude: a carry goes on into the exponent as it should.
  std::uint64_t bits = bits_of(type, element);
  bits = (bits + (1ull << (drop - 1))) & ~((1ull << drop) - 1);
  std::memcpy(element, &bits, size_of(type));
}

std::optional<std::uint64_t> compare_values(const Lane& lane, const Tolerance& tolerance, std::uint64_t start,
                                            ByteView expected, ByteView actual, const Mask& ignore,
                                            ValueStats& stats) {
  std::optional<std::uint64_t> first;
  const std::uint32_t size = size_of(lane.type);
  const std::uint64_t end = start + expected.size();
  for (std::uint64_t i = lane.first_from(start); i < lane.count; ++i) {
    const std::uint64_t at = lane.at(i);
    if (at >= end) break;
    if (end - at < size) break;
    const std::uint64_t here = at - start;
    if (touched(ignore, here, size)) continue;
    ++stats.elements;
    const std::byte *e = expected.data() + here, *a = actual.data() + here;
    if (std::memcmp(e, a, size) == 0) {
      const double v = value_of(lane.type, e);
      if (std::isfinite(v)) stats.sum_of_squares += v * v;
      ++stats.ulps[0];
      continue;
    }
    ++stats.different;
    if (take(lane.type, e, a, tolerance, &stats)) continue;
    ++stats.beyond;
    if (!first) first = at;
  }
  return first;
}

DifferenceMap::DifferenceMap(std::uint64_t elements, const std::vector<std::uint64_t>& shape) {
  if (elements == 0) return;
  width_ = elements, height_ = 1;
  if (shape.size() >= 2 && shape.back() != 0) {
    width_ = std::min(shape.back(), elements);
    height_ = (elements + width_ - 1) / width_;
  }
  rows_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(height_, kMapRows));
  columns_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(width_, kMapColumns));
  counts_.resize(std::size_t{rows_} * columns_);
}

void DifferenceMap::add(std::uint64_t element) {
  if (counts_.empty()) return;
  const std::uint64_t row = std::min(element / width_, height_ - 1) * rows_ / height_,
                      column = element % width_ * columns_ / width_;
  ++counts_[row * columns_ + column];
}

double DifferenceMap::share(std::uint32_t row, std::uint32_t column) const {
  auto extent = [](std::uint64_t i, std::uint64_t of, std::uint64_t cells) {
    return ((i + 1) * of + cells - 1) / cells - (i * of + cells - 1) / cells;
  };
  const auto there = static_cast<double>(extent(row, height_, rows_)) * static_cast<double>(extent(column, width_, columns_));
  return std::min(1.0, static_cast<double>(counts_[std::size_t{row} * columns_ + column]) / std::max(1.0, there));
}

Json DifferenceMap::json() const {
  Json shares = Json::array();
  for (std::uint32_t r = 0; r < rows_; ++r)
    for (std::uint32_t c = 0; c < columns_; ++c) {
      // A single wrong element of many must not look like none.
      const double s = share(r, c);
      shares.push_back(s == 0 ? 0 : std::max(1, static_cast<int>(std::lround(s * 1000))));
    }
  return {{"rows", rows_}, {"columns", columns_}, {"height", height_}, {"width", width_}, {"shares", shares}};
}

Tolerance Comparator::tolerance(const Lane& lane) const {
  const auto it = tolerances_.find({lane.range, lane.type});
  return it == tolerances_.end() ? Tolerance{} : it->second;
}

Mask Comparator::float_bytes(std::uint32_t region, std::uint64_t start, std::size_t size) const {
  Mask mask(size);
  const std::uint64_t end = start + size;
  for (const Lane& lane : layout_.floats(region)) {
    const std::uint32_t bytes = size_of(lane.type);
    if (lane.stride == std::uint64_t{bytes} * lane.per) {
      const std::uint64_t lane_end = lane.offset + lane.count * bytes;
      const std::uint64_t from = std::max(start, lane.offset), to = std::min(end, lane_end);
      if (from < to) mask.set_range(from - start, to - start);
      continue;
    }
    for (std::uint64_t i = lane.first_from(start); i < lane.count; ++i) {
      const std::uint64_t at = lane.at(i);
      if (at >= end || end - at < bytes) break;
      mask.set_range(at - start, at - start + bytes);
    }
  }
  return mask;
}

bool Comparator::accepts(std::uint32_t region, std::uint64_t start, ByteView expected, ByteView actual,
                         const Mask& ignore) const {
  if (level_ != Level::numeric || layout_.floats(region).empty())
    return compare(expected, actual, ignore).count == 0;
  Mask exact = float_bytes(region, start, expected.size());
  exact.merge(ignore);
  if (compare(expected, actual, exact).count != 0) return false;
  for (const Lane& lane : layout_.floats(region)) {
    const Tolerance t = tolerance(lane);
    const std::uint32_t size = size_of(lane.type);
    for (std::uint64_t i = lane.first_from(start); i < lane.count; ++i) {
      const std::uint64_t at = lane.at(i);
      if (at >= start + expected.size() || start + expected.size() - at < size) break;
      const std::byte *e = expected.data() + (at - start), *a = actual.data() + (at - start);
      if (std::memcmp(e, a, size) == 0 || touched(ignore, at - start, size)) continue;
      if (!take(lane.type, e, a, t, nullptr)) return false;
    }
  }
  return true;
}

void Comparator::report(std::uint32_t region, std::uint64_t region_size, std::uint64_t start, ByteView expected,
                        ByteView actual, const Mask& ignore, RegionReport& out) const {
  out.region = region;
  const Difference all = compare(expected, actual, ignore);
  const bool numeric = level_ == Level::numeric;
  std::optional<std::uint64_t> wrong;
  for (const Lane& lane : layout_.floats(region)) {
    ValueStats s;
    const auto beyond = compare_values(lane, tolerance(lane), start, expected, actual, ignore, s);
    if (numeric) out.wrong += s.beyond;
    if (numeric && beyond && (!wrong || *beyond < *wrong)) wrong = beyond;
    out.values.add(s);
  }
  if (all.count == 0) return;
  Mask exact = ignore;
  if (numeric) {
    exact = float_bytes(region, start, expected.size());
    exact.merge(ignore);
  }
  const Difference bytes = numeric ? compare(expected, actual, exact) : all;
  out.wrong += bytes.count;
  if (bytes.count != 0 && (!wrong || start + bytes.first < *wrong)) wrong = start + bytes.first;
  out.differing_bytes += all.count;
  if (!out.first_difference) out.first_difference = start + all.first;
  const bool first_to_show = (wrong && !out.first_wrong) || out.expected.empty();
  if (first_to_show) {
    const ElementPlace place = place_of(layout_, region, wrong.value_or(start + all.first));
    const std::uint64_t at = std::max(place.offset, start) - start;
    const std::size_t n = std::min<std::size_t>(kShown, expected.size() - at);
    out.expected = to_hex(expected.subspan(at, n)), out.actual = to_hex(actual.subspan(at, n));
    out.place = place.text;
    if (layout_.range_at(region, place.offset) != nullptr && at + size_of(place.type) <= expected.size()) {
      out.type = to_string(place.type);
      out.expected_value = value_text(place.type, expected.data() + at);
      out.actual_value = value_text(place.type, actual.data() + at);
    }
    if (wrong) out.first_wrong = place.offset;
    out.first_difference = std::min(*out.first_difference, place.offset);
  }
  const TypedRange* range = layout_.range_at(region, start + all.first);
  const std::uint32_t stride = range != nullptr ? range->stride : 4;
  const std::uint64_t base = range != nullptr ? range->offset : 0,
                      size = range != nullptr ? range->size : region_size;
  if (out.map.empty()) out.map = DifferenceMap((size + stride - 1) / stride, range != nullptr ? range->shape : std::vector<std::uint64_t>{});
  const Mask differs = differing(expected, actual);
  std::uint64_t last = UINT64_MAX;
  for (const Run& run : runs(differs))
    for (std::uint64_t at = run.offset; at < run.offset + run.size; ++at) {
      if (ignore.test(at) || start + at < base) continue;
      const std::uint64_t element = (start + at - base) / stride;
      if (element != last) out.map.add(last = element);
    }
}

}  // namespace klab::validate
