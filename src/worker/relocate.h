// SPDX-License-Identifier: Apache-2.0
// Pointers into captured regions, found by value: rewritten when a region lies elsewhere than it did.
// Not here: placing regions (loaded.h).
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "validate/bytes.h"

namespace klab::worker {

class Relocator {
 public:
  struct Moved {
    std::uint64_t old_address = 0, size = 0, new_address = 0;
  };
  Relocator() = default;
  /// A range that stays where it is (a module variable, whose place differs from variant to variant) still
  /// counts as pointed into. Ranges may overlap (two buffers over one memory); the first in address order
  /// that holds a word decides.
  explicit Relocator(std::vector<Moved> ranges);
  /// Rewrites 8-byte aligned words of `bytes` that fall inside an old range. Returns how many.
  std::uint64_t rewrite(std::span<std::byte> bytes) const;
  /// The words that rewrite() would look at, whether or not their range moved.
  validate::Mask pointer_words(std::span<const std::byte> bytes) const;
  /// True when some range lies elsewhere.
  bool moves() const { return moves_; }

 private:
  const Moved* find(std::uint64_t word) const;
  std::vector<Moved> ranges_;  // by old_address
  std::uint64_t lowest_ = ~0ull, highest_ = 0;
  bool moves_ = false;
};

}  // namespace klab::worker
