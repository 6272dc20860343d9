// SPDX-License-Identifier: Apache-2.0
#include "validate/bytes.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"

namespace klab::validate {
namespace {
constexpr std::size_t kBlock = 4096;  // equal blocks are passed over by memcmp
}

void Mask::set_range(std::size_t from, std::size_t to) {
  KLAB_CHECK(from <= to && to <= size_);
  while (from < to) {
    const std::size_t bit = from % 64, count = std::min<std::size_t>(64 - bit, to - from);
    words_[from / 64] |= (count == 64 ? ~std::uint64_t{0} : ((std::uint64_t{1} << count) - 1) << bit);
    from += count;
  }
}

bool Mask::any() const {
  return std::any_of(words_.begin(), words_.end(), [](std::uint64_t w) { return w != 0; });
}

std::uint64_t Mask::count() const {
  std::uint64_t n = 0;
  for (const std::uint64_t w : words_) n += static_cast<std::uint64_t>(std::popcount(w));
  return n;
}

void Mask::merge(const Mask& other) {
  if (other.size_ == 0) return;
  if (size_ == 0) *this = Mask(other.size_);
  KLAB_CHECK(size_ == other.size_);
  for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
}

void Mask::remove(const Mask& other) {
  if (other.size_ == 0 || size_ == 0) return;
  KLAB_CHECK(size_ == other.size_);
  for (std::size_t i = 0; i < words_.size(); ++i) words_[i] &= ~other.words_[i];
}

void Mask::widen_to_elements() {
  static_assert(kElement == 4);
  for (std::size_t i = 0; i < words_.size(); ++i) {
    std::uint64_t w = words_[i];
    w |= w >> 1;
    w |= w >> 2;
    w &= 0x1111111111111111u;  // bit 0 of each group of four
    words_[i] = w * 0xf;
  }
  if (size_ % 64 != 0 && !words_.empty()) words_.back() &= (std::uint64_t{1} << (size_ % 64)) - 1;
}

std::uint64_t Mask::count_elements() const {
  std::uint64_t n = 0;
  for (std::uint64_t w : words_) {
    w |= w >> 1;
    w |= w >> 2;
    n += static_cast<std::uint64_t>(std::popcount(w & 0x1111111111111111u));
  }
  return n;
}

Difference compare(ByteView expected, ByteView actual, const Mask& ignore) {
  KLAB_CHECK(expected.size() == actual.size());
  Difference d;
  for (std::size_t at = 0; at < expected.size(); at += kBlock) {
    const std::size_t n = std::min(kBlock, expected.size() - at);
    if (std::memcmp(expected.data() + at, actual.data() + at, n) == 0) continue;
    for (std::size_t i = at; i < at + n; ++i) {
      if (expected[i] == actual[i] || ignore.test(i)) continue;
      if (d.count++ == 0) d.first = i;
    }
  }
  return d;
}

Mask differing(ByteView a, ByteView b) {
  KLAB_CHECK(a.size() == b.size());
  Mask mask(a.size());
  for (std::size_t at = 0; at < a.size(); at += kBlock) {
    const std::size_t n = std::min(kBlock, a.size() - at);
    if (std::memcmp(a.data() + at, b.data() + at, n) == 0) continue;
    for (std::size_t i = at; i < at + n; ++i)
      if (a[i] != b[i]) mask.set(i);
  }
  return mask;
}

std::vector<Run> runs(const Mask& mask) {
  std::vector<Run> all;
  for (std::size_t i = 0; i < mask.size(); ++i) {
    if (!mask.test(i)) continue;
    const std::size_t start = i;
    while (i < mask.size() && mask.test(i)) ++i;
    all.push_back({start, i - start});
  }
  return all;
}

}  // namespace klab::validate
