// SPDX-License-Identifier: Apache-2.0
// Which bytes a kernel writes without looking at what they held, from two runs over two poisons.
// Not here: running it (worker/probe).
#pragma once
#include "validate/bytes.h"

namespace klab::validate {

/// The two poisons. No byte of one equals the same byte of the other. As floats (16, 32 and 64 bits) they are
/// moderate and far apart, as integers large: a kernel that computes with them gives different results.
inline constexpr std::uint32_t kPoison[2] = {0x40b5e6d7u, 0xbf4a1928u};

/// Byte of poison `which` at `offset` of a region.
constexpr std::byte poison_byte(int which, std::uint64_t offset) {
  return static_cast<std::byte>(kPoison[which] >> (offset % 4 * 8) & 0xffu);
}
/// Fills `bytes`, whose first byte is at `offset` of its region.
void fill_poison(std::span<std::byte> bytes, int which, std::uint64_t offset);

struct Classified {
  Mask written;     // its content after the run is the kernel's
  Mask write_only;  // of these: the result does not depend on what was there, for whole elements only
};

/// `after_a` and `after_b`: the same chunk after the baseline ran over poison 0 and over poison 1 of the
/// bytes in `poisoned`; `offset`: where the chunk starts in its region. Bytes outside `poisoned` are not
/// classified.
Classified classify(ByteView after_a, ByteView after_b, const Mask& poisoned, std::uint64_t offset);

/// `image` with the bytes of `write_only` replaced by poison `which`.
void apply_poison(std::span<std::byte> image, const Mask& write_only, int which, std::uint64_t offset);

}  // namespace klab::validate
