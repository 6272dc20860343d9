// SPDX-License-Identifier: Apache-2.0
// Sizes and fields of types that foreign modules declare: sums that cannot overflow, and arrays of fields.
// Not here: which types there are (reflect.cpp).
#pragma once
#include <cstdint>
#include <vector>

#include "compile/protocol.h"

namespace klab::compile {

inline std::uint64_t add(std::uint64_t a, std::uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }
inline std::uint64_t multiply(std::uint64_t a, std::uint64_t b) {
  return b != 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}
inline std::uint64_t round_up(std::uint64_t value, std::uint64_t to) {
  return to <= 1 ? value : multiply(add(value, to - 1) / to, to);
}

inline constexpr std::size_t kMostFields = 64;

/// `count` copies of an element's fields, `stride` bytes apart; one run where they follow each other without gaps.
inline std::vector<ReflectedField> repeated(const std::vector<ReflectedField>& element, std::uint64_t element_size,
                                     std::uint64_t stride, std::uint64_t count) {
  if (element.empty() || count == 0 || stride == 0) return {};
  if (element.size() == 1 && element[0].offset == 0 && element_size == stride &&
      element_size % element[0].count == 0 && multiply(element[0].count, count) <= UINT32_MAX) {
    ReflectedField run = element[0];
    run.count = static_cast<std::uint32_t>(run.count * count);
    return {run};
  }
  if (count > kMostFields || element.size() * count > kMostFields || multiply(stride, count) > UINT32_MAX) return {};
  std::vector<ReflectedField> out;
  for (std::uint64_t i = 0; i < count; ++i)
    for (ReflectedField f : element) {
      f.offset += static_cast<std::uint32_t>(i * stride);
      out.push_back(std::move(f));
    }
  return out;
}

}  // namespace klab::compile
