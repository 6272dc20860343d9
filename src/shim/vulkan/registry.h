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

/// Capture mode: a pointer to give the program for a command of that name that is not in commands.def.
PFN_vkVoidFunction stand_in(Device& d, const char* name, PFN_vkVoidFunction next);
bool is_unknown_command(const char* name);

/// In a forked child: kernels are announced again, and counted from zero.
void forget_kernels();

}  // namespace klab::shim
