// SPDX-License-Identifier: Apache-2.0
// Devices behind which there is no hardware: what they compute counts, what they take does not.
#pragma once
#include "bundle/manifest.h"

namespace klab::bundle {

inline constexpr const char* kEmulated = "emulated";  // DeviceIdentity::type

inline bool is_emulated(const DeviceIdentity& device) { return device.type == kEmulated; }

}  // namespace klab::bundle
