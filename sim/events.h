// SPDX-License-Identifier: Apache-2.0
// Events of the thunk: what the GPU's interrupts wake.
#pragma once
#include "numbers.h"

namespace sim {

/// An interrupt with this event's number; unknown numbers wake nobody.
void set_event(u32 id);
/// All that wait for memory events learn of this fault, as the driver tells it.
void report_fault(u64 address, bool write);

}  // namespace sim
