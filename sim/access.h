// SPDX-License-Identifier: Apache-2.0
// What memory instructions and the set-up of waves agree on.
#pragma once
#include "lanes.h"

namespace sim {

/// The last word of the one buffer descriptor that there is: scratch, swizzled by lane. Its value is ours; kernels hand it on.
inline constexpr u32 kScratchDescriptor = 0x31c16000;

/// f(lane) for those of the execution mask.
template <class F>
void each_lane(Wave& w, F&& f) {
  for (u64 left = w.exec(); left != 0; left &= left - 1) f(static_cast<u32>(__builtin_ctzll(left)));
}

}  // namespace sim
