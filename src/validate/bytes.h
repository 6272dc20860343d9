// SPDX-License-Identifier: Apache-2.0
// Bit masks over bytes, and bitwise comparison under a mask. The pieces are chunks of regions: any byte
// arrays. Not here: where the bytes come from (worker/), what a difference means (judge.h).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace klab::validate {

using ByteView = std::span<const std::byte>;
using ByteBuffer = std::vector<std::byte>;

inline constexpr std::size_t kElement = 4;  // bytes: what varies or is poisoned is taken whole

/// One bit for each byte of an array; empty (size 0) means none set.
class Mask {
 public:
  Mask() = default;
  explicit Mask(std::size_t size) : size_(size), words_((size + 63) / 64) {}
  std::size_t size() const { return size_; }
  bool test(std::size_t i) const { return i < size_ && (words_[i / 64] >> (i % 64) & 1) != 0; }
  /// Sets [from, to).
  void set_range(std::size_t from, std::size_t to);
  void set(std::size_t i) { words_[i / 64] |= std::uint64_t{1} << (i % 64); }
  void clear(std::size_t i) { words_[i / 64] &= ~(std::uint64_t{1} << (i % 64)); }
  bool any() const;
  std::uint64_t count() const;
  /// Sets what `other` sets. An empty mask first takes the other's size.
  void merge(const Mask& other);
  /// Clears what `other` sets.
  void remove(const Mask& other);
  /// Sets the whole element around each set bit.
  void widen_to_elements();
  std::uint64_t count_elements() const;
  /// For sending a mask to another process of ours.
  std::span<const std::uint64_t> words() const { return words_; }
  std::span<std::uint64_t> words() { return words_; }

 private:
  std::size_t size_ = 0;
  std::vector<std::uint64_t> words_;
};

struct Difference {
  std::uint64_t count = 0;  // differing bytes
  std::uint64_t first = 0;  // offset of the first, when count > 0
};

/// Bytes of `expected` and `actual` (equal sizes) that differ and are not set in `ignore`.
Difference compare(ByteView expected, ByteView actual, const Mask& ignore = {});

/// Sets in the result each byte in which a and b differ.
Mask differing(ByteView a, ByteView b);

/// [offset, size) runs of set bytes, in order.
struct Run {
  std::uint64_t offset = 0, size = 0;
};
std::vector<Run> runs(const Mask& mask);

}  // namespace klab::validate
