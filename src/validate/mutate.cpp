// SPDX-License-Identifier: Apache-2.0
#include "validate/mutate.h"

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

std::uint32_t other_float(std::uint32_t w, std::uint64_t chance) {
  if (!ordinary_float(w)) return w;
  w ^= static_cast<std::uint32_t>(chance & 1) << 31;
  const int step = static_cast<int>(chance >> 1 & 3) - 1;  // -1, 0, 1, 2
  const std::uint32_t exponent = (w >> 23 & 0xff) + static_cast<std::uint32_t>(step == 2 ? 0 : step);
  return (w & 0x807fffffu) | exponent << 23;
}

std::uint32_t other_integer(std::uint32_t w, std::uint64_t chance) {
  if (w > 1u << 20) return w;
  const std::uint32_t step = 1 + static_cast<std::uint32_t>(chance % 3);
  return (chance >> 8 & 1) != 0 || w < step ? w + step : w - step;
}

}  // namespace

void to_json(Json& j, const Mutation& v) { j = {{"kind", v.kind}, {"region", v.region}, {"seed", v.seed}}; }
void from_json(const Json& j, Mutation& v) {
  read_required(j, "kind", v.kind);
  read_required(j, "region", v.region);
  read_required(j, "seed", v.seed);
}

std::string to_string(const Mutation& v) {
  const char* what = v.kind == MutationKind::permute_words    ? "words permuted"
                     : v.kind == MutationKind::float_values   ? "float values changed"
                     : v.kind == MutationKind::small_integers ? "small integers changed"
                                                              : "bytes scrambled";
  return fmt::format("region {} with its {} (seed {})", v.region, what, v.seed);
}

void mutate(std::span<std::byte> bytes, const Mutation& mutation, std::uint64_t offset, const Mask& keep) {
  const std::uint64_t base = mix(std::uint64_t{mutation.seed} << 32 ^ mutation.region) ^ mix(offset);
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
      for (std::size_t i = 0; i < words; ++i)
        if (!kept(i)) set_word(bytes, i, other_float(word_at(bytes, i), mix(base + i)));
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
