// SPDX-License-Identifier: Apache-2.0
// CUPTI's callbacks: which are asked for, and what each means for the trackers and for a capture.
#pragma once
#include <cupti.h>

#include <string>

namespace klab::shim {

/// The subscriber of capture mode; of trace mode only the calls that make a context. Empty: done.
std::string subscribe_capture();
std::string subscribe_trace();
void CUPTIAPI on_callback(void* user, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data);
/// From now on every callback returns at once.
void end_callbacks();

}  // namespace klab::shim
