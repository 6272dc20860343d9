// SPDX-License-Identifier: Apache-2.0
// Comparing as values: tolerances, NaN and infinity masks, distances in units in the last place, and where in a
// region things differ. Not here: byte comparison (bytes.h), what a difference means (judge.h).
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "validate/element.h"

namespace klab::validate {

/// bitwise: every byte. numeric: floating-point elements within a tolerance, every other byte exactly. custom: a
/// user's program decides.
enum class Level { bitwise, numeric, custom };
KLAB_JSON_ENUM(Level, bitwise, numeric, custom)

/// |actual - expected| <= absolute + relative * |expected|, with equal NaN and infinity masks.
struct Tolerance {
  double absolute = 0, relative = 0;
};
void to_json(Json& j, const Tolerance& v);
void from_json(const Json& j, Tolerance& v);
/// Where nobody gives one: relative 2^-(0.66 p) for p significant bits, absolute the same times the root mean square
/// of the expected values. Sums in another order pass; results of half the precision do not.
Tolerance default_tolerance(ElementType type, double root_mean_square);
/// "abs=1e-5,rel=1e-4". Errors: usage.
Result<Tolerance> parse_tolerance(std::string_view text);

/// Histogram of distances in units in the last place: 0, 1, 2, 3-4, 5-8, ... up to 2^14, then all above; the last
/// one counts elements of which one is NaN or infinite and the other is not.
inline constexpr std::size_t kUlpBuckets = 18;
std::string ulp_bucket_name(std::size_t bucket);

struct ValueStats {
  std::uint64_t elements = 0, different = 0;  // different: in bits
  std::uint64_t beyond = 0;                   // the tolerance; NaN and infinity masks included
  std::uint64_t nan_mismatch = 0, infinity_mismatch = 0;
  double max_absolute = 0, max_relative = 0;
  std::uint64_t max_ulp = 0;
  double sum_of_squares = 0;  // of expected, finite ones
  std::array<std::uint64_t, kUlpBuckets> ulps{};
  void add(const ValueStats& other);
};
void to_json(Json& j, const ValueStats& v);
void from_json(const Json& j, ValueStats& v);

/// Compares the lane's elements that lie in [start, start + size) of their region. `expected` and `actual`: these
/// bytes. Elements that `ignore` touches are left out. Returns the region offset of the first one beyond.
std::optional<std::uint64_t> compare_values(const Lane& lane, const Tolerance& tolerance, std::uint64_t start,
                                            ByteView expected, ByteView actual, const Mask& ignore,
                                            ValueStats& stats);

/// Distance of two elements in steps between neighbouring values of the type; UINT64_MAX with a NaN.
std::uint64_t ulp_distance(ElementType type, const std::byte* a, const std::byte* b);

/// The nearest value with half of the type's significant bits (rounded up), in place.
void halve_precision(ElementType type, std::byte* element);

/// Where in a region elements differ, as a picture of at most 16 x 64 cells.
class DifferenceMap {
 public:
  DifferenceMap() = default;
  /// `shape`: of the elements; empty: one dimension.
  DifferenceMap(std::uint64_t elements, const std::vector<std::uint64_t>& shape);
  void add(std::uint64_t element);
  bool empty() const { return counts_.empty(); }
  std::uint32_t rows() const { return rows_; }
  std::uint32_t columns() const { return columns_; }
  /// Share of a cell's elements that differ, 0..1.
  double share(std::uint32_t row, std::uint32_t column) const;
  /// {"rows", "columns", "height", "width", "shares": [thousandths, row by row]}
  Json json() const;

 private:
  std::uint64_t height_ = 0, width_ = 0;
  std::uint32_t rows_ = 0, columns_ = 0;
  std::vector<std::uint64_t> counts_;
};

/// What was found in one region.
struct RegionReport {
  std::uint32_t region = 0;
  std::uint64_t differing_bytes = 0;              // outside masks
  std::uint64_t wrong = 0;                        // bytes (exact) and elements (values) that the level rejects
  std::optional<std::uint64_t> first_wrong;       // region offset of the first element rejected
  std::optional<std::uint64_t> first_difference;  // of the first that differs at all
  std::string expected, actual;                   // hexadecimal, up to 16 bytes from the first
  std::string expected_value, actual_value, place, type;
  ValueStats values;  // of floating-point elements
  DifferenceMap map;
};

/// Compares what one level accepts. Thread: any.
class Comparator {
 public:
  Comparator() = default;
  Comparator(Level level, Layout layout) : level_(level), layout_(std::move(layout)) {}
  Level level() const { return level_; }
  const Layout& layout() const { return layout_; }
  /// By position in layout().ranges() and type; what is not there accepts no difference.
  void set_tolerance(std::uint32_t range, ElementType type, Tolerance t) { tolerances_[{range, type}] = t; }
  Tolerance tolerance(const Lane& lane) const;
  const std::map<std::pair<std::uint32_t, ElementType>, Tolerance>& tolerances() const { return tolerances_; }
  /// Bytes of [start, start + size) of a region that hold floating-point elements.
  Mask float_bytes(std::uint32_t region, std::uint64_t start, std::size_t size) const;

  /// Whether the level takes `actual` (bytes from `start` of the region on) for `expected`.
  bool accepts(std::uint32_t region, std::uint64_t start, ByteView expected, ByteView actual,
               const Mask& ignore) const;
  /// As accepts(), with everything that there is to say. `region_size` in bytes.
  void report(std::uint32_t region, std::uint64_t region_size, std::uint64_t start, ByteView expected,
              ByteView actual, const Mask& ignore, RegionReport& out) const;

 private:
  Level level_ = Level::bitwise;
  Layout layout_;
  std::map<std::pair<std::uint32_t, ElementType>, Tolerance> tolerances_;
};

}  // namespace klab::validate
