// SPDX-License-Identifier: Apache-2.0
// Vulkan's words in sentences for people.
#pragma once
#include <vulkan/vulkan.h>

#include <string>

namespace klab::shim {

inline bool is_dynamic(VkDescriptorType type) {
  return type == VK_DESCRIPTOR_TYPE_STORAGE_BUFFER_DYNAMIC ||
         type == VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER_DYNAMIC;
}
inline bool is_buffer_type(VkDescriptorType type) {
  return type == VK_DESCRIPTOR_TYPE_STORAGE_BUFFER || type == VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER ||
         is_dynamic(type);
}

/// "a storage image (VK_DESCRIPTOR_TYPE_STORAGE_IMAGE)".
inline std::string describe(VkDescriptorType type) {
  switch (type) {
    case VK_DESCRIPTOR_TYPE_SAMPLER:
      return "a sampler (VK_DESCRIPTOR_TYPE_SAMPLER)";
    case VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER:
      return "a combined image sampler (VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER)";
    case VK_DESCRIPTOR_TYPE_SAMPLED_IMAGE:
      return "a sampled image (VK_DESCRIPTOR_TYPE_SAMPLED_IMAGE)";
    case VK_DESCRIPTOR_TYPE_STORAGE_IMAGE:
      return "a storage image (VK_DESCRIPTOR_TYPE_STORAGE_IMAGE)";
    case VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER:
      return "a uniform texel buffer (VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER)";
    case VK_DESCRIPTOR_TYPE_STORAGE_TEXEL_BUFFER:
      return "a storage texel buffer (VK_DESCRIPTOR_TYPE_STORAGE_TEXEL_BUFFER)";
    case VK_DESCRIPTOR_TYPE_INPUT_ATTACHMENT:
      return "an input attachment (VK_DESCRIPTOR_TYPE_INPUT_ATTACHMENT)";
    case VK_DESCRIPTOR_TYPE_INLINE_UNIFORM_BLOCK:
      return "an inline uniform block (VK_DESCRIPTOR_TYPE_INLINE_UNIFORM_BLOCK)";
    case VK_DESCRIPTOR_TYPE_ACCELERATION_STRUCTURE_KHR:
      return "an acceleration structure (VK_DESCRIPTOR_TYPE_ACCELERATION_STRUCTURE_KHR)";
    case VK_DESCRIPTOR_TYPE_ACCELERATION_STRUCTURE_NV:
      return "an acceleration structure (VK_DESCRIPTOR_TYPE_ACCELERATION_STRUCTURE_NV)";
    case VK_DESCRIPTOR_TYPE_MUTABLE_EXT:
      return "a mutable descriptor (VK_DESCRIPTOR_TYPE_MUTABLE_EXT)";
    default:
      return "a descriptor of type " + std::to_string(static_cast<int>(type));
  }
}

}  // namespace klab::shim
