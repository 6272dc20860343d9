// SPDX-License-Identifier: Apache-2.0
#include "validate/poison.h"

#include <algorithm>

#include "base/error.h"

namespace klab::validate {

void fill_poison(std::span<std::byte> bytes, int which, std::uint64_t offset) {
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = poison_byte(which, offset + i);
}

Classified classify(ByteView after_a, ByteView after_b, const Mask& poisoned, std::uint64_t offset) {
  KLAB_CHECK(after_a.size() == after_b.size() && poisoned.size() == after_a.size());
  Classified c{Mask(after_a.size()), Mask(after_a.size())};
  Mask dependent(after_a.size());
  for (std::size_t i = 0; i < after_a.size(); ++i) {
    if (!poisoned.test(i)) continue;
    const std::byte a = after_a[i], b = after_b[i];
    if (a == poison_byte(0, offset + i) && b == poison_byte(1, offset + i)) continue;  // nobody wrote here
    c.written.set(i);
    if (a == b)
      c.write_only.set(i);
    else
      dependent.set(i);
  }
  // Single bytes of a sum can agree by chance: one dependent byte makes its element, and the pair that a
  // 64-bit value would take, dependent.
  dependent.widen_to_elements();
  Mask wide(after_a.size());
  for (std::size_t i = 0; i < after_a.size(); i += 8) {
    bool any = false;
    for (std::size_t k = i; k < std::min(i + 8, after_a.size()); ++k) any = any || dependent.test(k);
    if (any)
      for (std::size_t k = i; k < std::min(i + 8, after_a.size()); ++k) wide.set(k);
  }
  c.write_only.remove(wide);
  return c;
}

void apply_poison(std::span<std::byte> image, const Mask& write_only, int which, std::uint64_t offset) {
  for (std::size_t i = 0; i < image.size(); ++i)
    if (write_only.test(i)) image[i] = poison_byte(which, offset + i);
}

}  // namespace klab::validate
