// SPDX-License-Identifier: Apache-2.0
// Which parts of what is ours belong to no placed memory: nothing may change them. Pure.
#pragma once
#include <span>
#include <vector>

#include "gpu/backend.h"

namespace klab::gpu {

struct PlacedRange {
  MemoryId id = 0;
  std::uint64_t address = 0, size = 0;
};
/// Gaps before, between and after `used` inside each extent that any of them touches. `budget`: bytes that may still be
/// guarded; a gap that is larger is left out. `Guard::memory` is 0: the backend names them.
std::vector<Guard> find_redzones(std::span<const AddressRange> extents, std::vector<PlacedRange> used,
                                 std::uint64_t& budget);

}  // namespace klab::gpu
