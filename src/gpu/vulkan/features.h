// SPDX-License-Identifier: Apache-2.0
// Everything that a captured compute shader could need, asked of the device and enabled when it is there.
#pragma once
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "gpu/vulkan/instance.h"

namespace klab::gpu::vulkan {

class Features {
 public:
  Features(const Instance& instance, VkPhysicalDevice device);

  bool extension(const char* name) const;
  /// What to hand to vkCreateDevice: the chain's head and the extensions to enable.
  const VkPhysicalDeviceFeatures2* chain() const { return &base_; }
  std::vector<const char*> enabled_extensions() const;

  /// The enabled struct of type T, or zeros when the device has none.
  template <class T>
  T get(VkStructureType type) const {
    T out{};
    for (const auto& block : blocks_)
      if (reinterpret_cast<const VkBaseOutStructure*>(block.get())->sType == type)
        std::memcpy(&out, block.get(), sizeof(T));
    return out;
  }
  const VkPhysicalDeviceFeatures& core() const { return base_.features; }
  VkPhysicalDeviceVulkan11Features v11{};
  VkPhysicalDeviceVulkan12Features v12{};  // filled from the extensions' structs where the device is older than 1.2
  VkPhysicalDeviceVulkan13Features v13{};
  std::uint32_t api_version = 0;

 private:
  void add(std::size_t size, VkStructureType type);
  void* find(VkStructureType type);

  VkPhysicalDeviceFeatures2 base_{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  std::vector<std::string> present_;
  std::vector<const char*> enabled_;
};

}  // namespace klab::gpu::vulkan
