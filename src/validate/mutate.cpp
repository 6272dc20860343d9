// SPDX-License-Identifier: Apache-2.0
#include "validate/mutate.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

namespace klab::validate {
namespace {

std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

std::uint32_t word_at(std::span<const std::byte> bytes, std::size_t i) {
  std::uint32_t w = 0;
  std::memcpy(&w, bytes.data() + i * 4, 4);
  return w;
}
void set_word(std::span<std::byte> bytes, std::size_t i, std::uint32_t w) {
  std::memcpy(bytes.data() + i * 4, &w, 4);
}

bool ordinary_float(std::uint32_t w) {
  const std::uint32_t exponent = w >> 23 & 0xff;
  return exponent >= 127 - 40 && exponent <= 127 + 40;
}

/// Sign, exponent and mantissa fields of an element, by type.
struct FloatFormat {
  unsigned mantissa = 0, exponent = 0;  // bits
};
FloatFormat format_of(ElementType type) {
  switch (type) {
    case ElementType::f16:
      return {10, 5};
    case ElementType::bf16:
      return {7, 8};
    case ElementType::f64:
      return {52, 11};
    default:
      return {23, 8};
  }
}

inline void other_float(ElementType type, std::byte* element, const MutationTarget& target, std::uint64_t chance) {
  const FloatFormat f = format_of(type);
  std::uint64_t w = 0;
  std::memcpy(&w, element, size_of(type));
  const std::uint64_t exponent_mask = (1ull << f.exponent) - 1, exponent = w >> f.mantissa & exponent_mask;
  const std::uint64_t sign = 1ull << (f.mantissa + f.exponent), rare = chance >> 8 & 127;
  if ((w & ~sign) == 0 && target.zeros) {
    // A small number of no range: half, one or two.
    const std::uint64_t bias = exponent_mask >> 1;
    w = (bias - 1 + chance % 3) << f.mantissa;
    std::memcpy(element, &w, size_of(type));
    return;
  }
  if (exponent == 0 || exponent == exponent_mask) return;  // zero, too small, infinite or NaN
  if (type == ElementType::f32 && !ordinary_float(static_cast<std::uint32_t>(w))) return;
  if (target.negative && rare == 0) {
    std::memset(element, 0, size_of(type));
    return;
  }
  if (target.negative && (chance & 1) != 0) w ^= sign;
  const unsigned step = static_cast<unsigned>(chance >> 1 & 3);  // down, stay, up, stay
  std::uint64_t now = exponent;
  if (step == 0 && exponent > 1) now = exponent - 1;
  if (step == 2 && exponent + 1 < exponent_mask && std::abs(value_of(type, element)) * 2 <= target.largest)
    now = exponent + 1;
  w = (w & ~(exponent_mask << f.mantissa)) | now << f.mantissa;
  std::memcpy(element, &w, size_of(type));
}

/// The elements of the lanes that lie whole in a chunk, or each of its words.
template <class Use>
void each_float(std::uint64_t offset, std::size_t size, std::span<const Lane> floats, Use use) {
  if (floats.empty()) {
    for (std::size_t at = 0; at + 4 <= size; at += 4) use(ElementType::f32, at);
    return;
  }
  for (const Lane& lane : floats)
    for (std::uint64_t i = lane.first_from(offset); i < lane.count; ++i) {
      const std::uint64_t at = lane.at(i);
      if (at >= offset + size || offset + size - at < size_of(lane.type)) break;
      use(lane.type, static_cast<std::size_t>(at - offset));
    }
}

std::uint32_t other_integer(std::uint32_t w, std::uint64_t chance) {
  if (w > 1u << 20) return w;
  const std::uint32_t step = 1 + static_cast<std::uint32_t>(chance % 3);
  return (chance >> 8 & 1) != 0 || w < step ? w + step : w - step;
}

}  // namespace

void to_json(Json& j, const Mutation& v) {
  Json targets = Json::array();
  for (const MutationTarget& t : v.targets)
    targets.push_back({{"region", t.region}, {"negative", t.negative}, {"largest", t.largest}, {"zeros", t.zeros}});
  j = {{"kind", v.kind}, {"targets", targets}, {"seed", v.seed}, {"bounded", v.bounded}};
}
void from_json(const Json& j, Mutation& v) {
  read_required(j, "kind", v.kind);
  read_required(j, "seed", v.seed);
  read_optional(j, "bounded", v.bounded);
  v.targets.clear();
  for (const Json& one : j.at("targets")) {
    MutationTarget& t = v.targets.emplace_back();
    read_required(one, "region", t.region);
    read_optional(one, "negative", t.negative);
    read_optional(one, "largest", t.largest);
    read_optional(one, "zeros", t.zeros);
  }
}

std::string to_string(const Mutation& v) {
  const char* what = v.kind == MutationKind::permute_words    ? "words permuted"
                     : v.kind == MutationKind::float_values   ? "floats changed"
                     : v.kind == MutationKind::small_integers ? "small integers changed"
                                                              : "bytes scrambled";
  std::string regions;
  for (const MutationTarget& t : v.targets) regions += fmt::format("{}{}", regions.empty() ? "" : ", ", t.region);
  return fmt::format("region{} {} with {} (seed {})", v.targets.size() == 1 ? "" : "s", regions, what, v.seed);
}

const MutationTarget* Mutation::target(std::uint32_t region) const {
  for (const MutationTarget& t : targets)
    if (t.region == region) return &t;
  return nullptr;
}

void widen(MutationTarget& target, ByteView bytes, std::uint64_t offset, std::span<const Lane> floats) {
  each_float(offset, bytes.size(), floats, [&](ElementType type, std::size_t at) {
    const double v = value_of(type, bytes.data() + at);
    if (!std::isfinite(v)) return;
    target.negative = target.negative || v < 0;
    target.largest = std::max(target.largest, std::abs(v));
  });
}

void mutate(std::span<std::byte> bytes, const Mutation& mutation, std::uint32_t region, std::uint64_t offset,
            const Mask& keep, std::span<const Lane> floats) {
  const MutationTarget* const target = mutation.target(region);
  if (target == nullptr) return;
  const std::uint64_t base = mix(std::uint64_t{mutation.seed} << 32 ^ region) ^ mix(offset);
  const std::size_t words = bytes.size() / 4;
  auto kept = [&](std::size_t i) { return keep.test(i * 4); };
  switch (mutation.kind) {
    case MutationKind::permute_words: {
      std::vector<std::size_t> at;
      for (std::size_t i = 0; i < words; ++i)
        if (!kept(i)) at.push_back(i);
      for (std::size_t n = at.size(); n > 1; --n) {
        const std::size_t a = at[n - 1], b = at[mix(base + n) % n];
        const std::uint32_t wa = word_at(bytes, a), wb = word_at(bytes, b);
        set_word(bytes, a, wb);
        set_word(bytes, b, wa);
      }
      return;
    }
    case MutationKind::float_values:
      each_float(offset, bytes.size(), floats, [&](ElementType type, std::size_t at) {
        if (!keep.test(at)) other_float(type, bytes.data() + at, *target, mix(base + at));
      });
      return;
    case MutationKind::small_integers:
      for (std::size_t i = 0; i < words; ++i)
        if (!kept(i)) set_word(bytes, i, other_integer(word_at(bytes, i), mix(base + i)));
      return;
    case MutationKind::scramble_bytes:
      for (std::size_t i = 0; i < bytes.size(); ++i)
        if (!keep.test(i)) bytes[i] ^= static_cast<std::byte>(1 + mix(base + i) % 255);
      return;
  }
}

bool looks_like_floats(ByteView bytes) {
  const std::size_t words = bytes.size() / 4;
  std::size_t ordinary = 0, zero = 0;
  for (std::size_t i = 0; i < words; ++i) {
    const std::uint32_t w = word_at(bytes, i);
    if (w == 0 || w == 0x80000000u)
      ++zero;
    else if (ordinary_float(w))
      ++ordinary;
  }
  return ordinary > 0 && (ordinary + zero) * 10 >= words * 9;
}

}  // namespace klab::validate
