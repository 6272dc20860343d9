// SPDX-License-Identifier: Apache-2.0
// What memory instructions and the set-up of waves agree on.
#pragma once
#include "lanes.h"

namespace sim {

/// The last word of the one buffer descriptor that there is: scratch, swizzled by lane. Its value is ours; kernels hand it on.
inline constexpr u32 kScratchDescriptor = 0x31c16000;

}  // namespace sim
