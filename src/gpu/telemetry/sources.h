// SPDX-License-Identifier: Apache-2.0
// The ways to read a device's state; each opens itself or says why not.
#pragma once
#include "base/files.h"
#include "gpu/telemetry.h"

namespace klab::gpu::telemetry {

std::unique_ptr<Telemetry> open_nvml(const bundle::DeviceIdentity& device, std::string& why);
/// `root`: /sys/class/drm, or a copy of such a tree in a test. The device is found by the PCI address in its uuid (RADV:
/// the last bytes; HIP: the bus id), else when it is the only one of its vendor.
std::unique_ptr<Telemetry> open_amdgpu(const bundle::DeviceIdentity& device, const fs::path& root, std::string& why);

}  // namespace klab::gpu::telemetry
