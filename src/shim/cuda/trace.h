// SPDX-License-Identifier: Apache-2.0
// Trace mode: CUPTI's kernel records become rows. Not here: counting of a capture (kernels.h).
#pragma once
#include <cupti.h>

#include <cstdint>
#include <string>

namespace klab::shim {

/// Asks CUPTI for records; a thread of ours collects them. Empty: done.
std::string start_trace();
/// All that is complete goes to klab. At the program's end.
void flush_trace();
/// One record, of any layout from CUpti_ActivityKernel5 on: later ones only grew.
void trace_kernel(const CUpti_ActivityKernel5& record);
void trace_after_fork();

}  // namespace klab::shim
