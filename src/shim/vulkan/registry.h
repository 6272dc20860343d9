// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "shim/vulkan/state.h"

namespace klab::shim {

Instance& add_instance(std::unique_ptr<Instance> instance);
/// Null when it is not ours.
std::unique_ptr<Instance> remove_instance(const void* dispatchable);
Device& add_device(std::unique_ptr<Device> device);
/// After vkDestroyDevice.
void remove_device(Device& device);

/// In a forked child: kernels are announced again, and counted from zero.
void forget_kernels();

}  // namespace klab::shim
