// SPDX-License-Identifier: Apache-2.0
#include "worker/relocate.h"

#include <algorithm>
#include <cstring>

namespace klab::worker {

Relocator::Relocator(std::vector<Moved> ranges) : ranges_(std::move(ranges)) {
  std::sort(ranges_.begin(), ranges_.end(),
            [](const Moved& a, const Moved& b) { return a.old_address < b.old_address; });
  for (const Moved& m : ranges_) {
    lowest_ = std::min(lowest_, m.old_address);
    highest_ = std::max(highest_, m.old_address + m.size);
    moves_ = moves_ || m.old_address != m.new_address;
  }
}

const Relocator::Moved* Relocator::find(std::uint64_t word) const {
  if (word < lowest_ || word >= highest_) return nullptr;  // nearly every word of data
  auto it = std::upper_bound(ranges_.begin(), ranges_.end(), word,
                             [](std::uint64_t w, const Moved& m) { return w < m.old_address; });
  while (it != ranges_.begin()) {
    --it;
    if (word - it->old_address < it->size) return &*it;
  }
  return nullptr;
}

std::uint64_t Relocator::rewrite(std::span<std::byte> bytes) const {
  if (!moves_) return 0;
  std::uint64_t count = 0;
  for (std::size_t at = 0; at + 8 <= bytes.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, 8);
    const Moved* m = find(word);
    if (m == nullptr || m->new_address == m->old_address) continue;
    word += m->new_address - m->old_address;
    std::memcpy(bytes.data() + at, &word, 8);
    ++count;
  }
  return count;
}

validate::Mask Relocator::pointer_words(std::span<const std::byte> bytes) const {
  validate::Mask mask(bytes.size());
  if (ranges_.empty()) return mask;
  for (std::size_t at = 0; at + 8 <= bytes.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, 8);
    if (find(word) == nullptr) continue;
    for (std::size_t k = 0; k < 8; ++k) mask.set(at + k);
  }
  return mask;
}

}  // namespace klab::worker
