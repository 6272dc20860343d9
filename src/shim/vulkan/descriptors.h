// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "shim/vulkan/state.h"

namespace klab::shim {

/// Applies one write. The device's lock is held.
void write(Device& d, SetContents& set, const VkWriteDescriptorSet& w);
/// Applies an update template. The device's lock is held.
void write_template(Device& d, SetContents& set, const UpdateTemplate& t, const void* data);

}  // namespace klab::shim
