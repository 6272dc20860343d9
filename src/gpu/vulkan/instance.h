// SPDX-License-Identifier: Apache-2.0
// The Vulkan loader by dlopen, one instance, and its physical devices as Klab names them.
#pragma once
#include <memory>
#include <vector>

#include "bundle/manifest.h"
#include "gpu/vulkan/vk.h"

namespace klab::gpu::vulkan {

class Instance {
 public:
  /// Loads libvulkan.so.1 and creates an instance without Klab's own capture layer.
  /// Errors: environment (no loader, no usable driver; names the packages).
  static Result<std::shared_ptr<Instance>> create();
  ~Instance();
  Instance(const Instance&) = delete;

  /// Physical devices with Vulkan 1.1 or newer and a compute queue, in the loader's order. Errors: no_device.
  Result<std::vector<VkPhysicalDevice>> devices() const;

  InstanceFunctions call;
  VkInstance handle = nullptr;

 private:
  Instance() = default;
};

bundle::DeviceIdentity identify(const Instance& instance, VkPhysicalDevice device);
std::vector<std::string> device_extensions(const Instance& instance, VkPhysicalDevice device);

}  // namespace klab::gpu::vulkan
