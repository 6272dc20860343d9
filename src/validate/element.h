// SPDX-License-Identifier: Apache-2.0
// What the bytes of a region are: element types, records of them, and where each element lies.
// Not here: finding the types out (ops/), comparing values (values.h).
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "validate/bytes.h"

namespace klab::validate {

/// f16: IEEE 754 binary16; bf16: the upper half of a binary32.
enum class ElementType { u8, i8, u16, i16, u32, i32, u64, i64, f16, bf16, f32, f64 };
KLAB_JSON_ENUM(ElementType, u8, i8, u16, i16, u32, i32, u64, i64, f16, bf16, f32, f64)

/// Bytes. (Inline, as the next: they are asked for each of millions of elements.)
constexpr std::uint32_t size_of(ElementType type) {
  constexpr std::uint32_t kSizes[] = {1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8};
  return kSizes[static_cast<std::size_t>(type)];
}
/// Significant bits of a floating-point type, with the hidden one; 0 for integers.
constexpr std::uint32_t precision_of(ElementType type) {
  constexpr std::uint32_t kBits[] = {0, 0, 0, 0, 0, 0, 0, 0, 11, 8, 24, 53};
  return kBits[static_cast<std::size_t>(type)];
}
constexpr bool is_float(ElementType type) { return precision_of(type) != 0; }

/// `count` elements of one type, one after the other.
struct Field {
  std::uint32_t offset = 0;  // bytes into the record
  ElementType type = ElementType::u32;
  std::uint32_t count = 1;
  std::string name;  // for a person; may be empty
  bool operator==(const Field&) const = default;
};
void to_json(Json& j, const Field& v);
void from_json(const Json& j, Field& v);

/// Records of `stride` bytes from `offset` of a region on. One field that fills the record: a plain array.
struct TypedRange {
  std::uint32_t region = 0;
  std::uint64_t offset = 0, size = 0;  // bytes
  std::uint32_t stride = 4;
  std::vector<Field> fields;
  std::vector<std::uint64_t> shape;  // of a plain array, slowest first; empty: one dimension
  std::string from;                  // how it is known: "--type", "SPIR-V", "mangled name", "klab.toml"
};
void to_json(Json& j, const TypedRange& v);
void from_json(const Json& j, TypedRange& v);

/// "f32", "f16 4096x4096", "{f32x3 position, u32 id}"
std::string describe(const TypedRange& v);

/// Elements of one type in a region: element i lies at offset + i / per * stride + i % per * size_of(type).
/// Elements lie at multiples of their size, so that none is cut by a chunk's end.
struct Lane {
  ElementType type = ElementType::u32;
  std::uint64_t offset = 0, stride = 4;
  std::uint32_t per = 1;
  std::uint64_t count = 0;
  std::uint32_t range = 0;  // position of its range in the layout
  std::uint64_t at(std::uint64_t i) const { return offset + i / per * stride + i % per * size_of(type); }
  /// The first element that does not lie before `offset`.
  std::uint64_t first_from(std::uint64_t offset) const;
};

/// The types of one dispatch's regions. A byte that no lane covers, and an integer lane, are compared bit by bit.
class Layout {
 public:
  Layout() = default;
  /// Ranges that do not fit their region, overlap an earlier one, or hold fields at odd places are left out
  /// and said in notes(). `sizes`: bytes of each region.
  Layout(std::vector<TypedRange> ranges, std::span<const std::uint64_t> sizes);
  const std::vector<TypedRange>& ranges() const { return ranges_; }
  /// Lanes of floating-point elements of a region.
  const std::vector<Lane>& floats(std::uint32_t region) const;
  /// The range that holds this byte; nullptr: none.
  const TypedRange* range_at(std::uint32_t region, std::uint64_t offset) const;
  const std::vector<std::string>& notes() const { return notes_; }
  bool any_floats() const;

 private:
  std::vector<TypedRange> ranges_;
  std::vector<std::vector<Lane>> floats_;  // by region
  std::vector<std::string> notes_;
};

/// The element that holds a byte: its type, its number in the range, and its place in the declared shape.
struct ElementPlace {
  ElementType type = ElementType::u32;
  std::uint64_t offset = 0;  // bytes from the region's start
  std::uint64_t number = 0;  // record of the range (element of a plain array)
  std::string text;          // "[12,7]", "[3].position[1]", or "offset 40" where nothing is known
};
ElementPlace place_of(const Layout& layout, std::uint32_t region, std::uint64_t offset);

/// Value of the element at the start of `bytes` (at least size_of(type)).
double value_of(ElementType type, const std::byte* bytes);
/// For a person: shortest text that reads back as the same value; "nan", "-inf".
std::string value_text(ElementType type, const std::byte* bytes);

/// "f16", "f16:4096x4096". Errors: usage.
struct TypeText {
  ElementType type = ElementType::f32;
  std::vector<std::uint64_t> shape;
};
Result<TypeText> parse_type(std::string_view text);

}  // namespace klab::validate
