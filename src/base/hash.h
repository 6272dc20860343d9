// SPDX-License-Identifier: Apache-2.0
// XXH3-128, the one content hash of Klab (xxHash, BSD-2-Clause).
#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace klab {

struct Hash128 {
  std::uint64_t low = 0, high = 0;
  auto operator<=>(const Hash128&) const = default;
};

Hash128 hash_bytes(std::span<const std::byte> bytes);
Hash128 hash_text(std::string_view text);
/// 32 hexadecimal digits, high word first (xxHash's canonical form).
std::string to_string(const Hash128& hash);
std::optional<Hash128> hash_from(std::string_view text);

}  // namespace klab

template <>
struct std::hash<klab::Hash128> {
  std::size_t operator()(const klab::Hash128& h) const noexcept {
    return h.low ^ (h.high * 0x9e3779b97f4a7c15u);
  }
};
