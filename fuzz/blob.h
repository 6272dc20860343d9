// SPDX-License-Identifier: Apache-2.0
// A bundle folder as one input: flags, two lengths, manifest, index, pack.
#pragma once
#include <cstring>
#include <string>
#include <string_view>

namespace klab::fuzz {

struct Blob {
  std::uint8_t flags = 0;  // 1: make chunk hashes right
  std::string manifest, index, pack;
};

inline std::string join(const Blob& b) {
  const auto m = static_cast<std::uint16_t>(b.manifest.size()),
             i = static_cast<std::uint16_t>(b.index.size());
  std::string text(1, static_cast<char>(b.flags));
  text.append(reinterpret_cast<const char*>(&m), 2);
  text.append(reinterpret_cast<const char*>(&i), 2);
  return text + b.manifest + b.index + b.pack;
}

inline Blob split(std::string_view text) {
  Blob b;
  if (text.size() < 5) return b;
  std::uint16_t m = 0, i = 0;
  b.flags = static_cast<std::uint8_t>(text[0]);
  std::memcpy(&m, text.data() + 1, 2);
  std::memcpy(&i, text.data() + 3, 2);
  text.remove_prefix(5);
  b.manifest = text.substr(0, m);
  text.remove_prefix(b.manifest.size());
  b.index = text.substr(0, i);
  text.remove_prefix(b.index.size());
  b.pack = text;
  return b;
}

}  // namespace klab::fuzz
