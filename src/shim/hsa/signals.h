// SPDX-License-Identifier: Apache-2.0
// Ending a dispatch for the program that we ended with a signal of our own. Not here: when.
#pragma once
#include <hsa/amd_hsa_signal.h>

#include "shim/hsa/api.h"

namespace klab::shim {

/// What the program waits for goes down as the device would have done it, with the kernel's own times.
inline void complete_for_program(hsa_signal_t ours, hsa_signal_t programs) {
  if (programs.handle == 0) return;
  const auto* from = reinterpret_cast<const amd_signal_t*>(ours.handle);
  auto* to = reinterpret_cast<amd_signal_t*>(programs.handle);
  to->start_ts = from->start_ts;
  to->end_ts = from->end_ts;
  api().core.hsa_signal_subtract_screlease_fn(programs, 1);
}

}  // namespace klab::shim
