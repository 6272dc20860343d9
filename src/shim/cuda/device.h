// SPDX-License-Identifier: Apache-2.0
// Telling klab which GPUs there are.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <string>

namespace klab::shim {

/// DEVICE for `device`, once; its number for records that name it. Driver calls are made.
std::uint32_t announce_device(CUdevice device);
/// DEVICE of the context that is current; 0 when there is none.
std::uint32_t announce_current_device();
/// The driver's version out of the text of /proc/driver/nvidia/version: "580.95.05"; empty: not found.
std::string version_in(const std::string& text);
void devices_after_fork();

}  // namespace klab::shim
