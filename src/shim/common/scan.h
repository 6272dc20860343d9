// SPDX-License-Identifier: Apache-2.0
// Finding words that could be pointers in captured contents, at memory speed. Not here: what they point to.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace klab::shim {

/// Calls `found(word)` for each aligned 8-byte word of `bytes` in [low, low + span): one subtraction and
/// comparison a word, eight words a step.
template <class Found>
void scan_words(const std::byte* bytes, std::size_t size, std::uint64_t low, std::uint64_t span,
                Found&& found) {
  const std::size_t words = size / 8;
  std::size_t i = 0;
  for (; i + 8 <= words; i += 8) {
    std::uint64_t w[8];
    std::memcpy(w, bytes + i * 8, sizeof w);
    bool any = false;
    for (std::uint64_t x : w) any |= x - low < span;
    if (any)
      for (std::uint64_t x : w)
        if (x - low < span) found(x);
  }
  for (; i < words; ++i) {
    std::uint64_t x;
    std::memcpy(&x, bytes + i * 8, 8);
    if (x - low < span) found(x);
  }
}

}  // namespace klab::shim
