// SPDX-License-Identifier: Apache-2.0
#include "gpu/redzones.h"

#include <algorithm>

namespace klab::gpu {

std::vector<Guard> find_redzones(std::span<const AddressRange> extents, std::vector<PlacedRange> used,
                                 std::uint64_t& budget) {
  std::sort(used.begin(), used.end(),
            [](const PlacedRange& a, const PlacedRange& b) { return a.address < b.address; });
  std::vector<Guard> out;
  for (const AddressRange& extent : extents) {
    const std::uint64_t end = extent.address + extent.size;
    std::uint64_t at = extent.address;
    MemoryId previous = 0;
    auto guard = [&](std::uint64_t to, MemoryId next) {
      if (at >= to || to - at > budget) return;
      budget -= to - at;
      out.push_back({0, at, to - at, previous != 0 ? previous : next, previous == 0});
    };
    for (const PlacedRange& m : used) {
      if (m.address + m.size <= extent.address || m.address >= end) continue;
      guard(std::min(m.address, end), m.id);
      at = std::max(at, m.address + m.size);
      previous = m.id;
    }
    if (previous != 0) guard(end, 0);
  }
  return out;
}

}  // namespace klab::gpu
