// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include <charconv>

#include <fmt/format.h>
#include <xxhash.h>

namespace klab {

Hash128 hash_bytes(std::span<const std::byte> bytes) {
  const XXH128_hash_t h = XXH3_128bits(bytes.data(), bytes.size());
  return {h.low64, h.high64};
}
Hash128 hash_text(std::string_view text) { return hash_bytes(std::as_bytes(std::span(text))); }

std::string to_string(const Hash128& hash) { return fmt::format("{:016x}{:016x}", hash.high, hash.low); }

std::optional<Hash128> hash_from(std::string_view text) {
  if (text.size() != 32) return std::nullopt;
  Hash128 h;
  const char* p = text.data();
  const auto high = std::from_chars(p, p + 16, h.high, 16);
  const auto low = std::from_chars(p + 16, p + 32, h.low, 16);
  if (high.ec != std::errc() || high.ptr != p + 16 || low.ec != std::errc() || low.ptr != p + 32)
    return std::nullopt;
  return h;
}

}  // namespace klab
