// SPDX-License-Identifier: Apache-2.0
// Vulkan's headers without prototypes, and the function tables that are filled through the loader.
#pragma once
#define VK_NO_PROTOTYPES 1
#include <vulkan/vulkan_core.h>

#include <string>

#include "base/error.h"

namespace klab::gpu::vulkan {

#define KLAB_VK_INSTANCE_FUNCTIONS(X)      \
  X(DestroyInstance)                       \
  X(EnumeratePhysicalDevices)              \
  X(GetPhysicalDeviceProperties2)          \
  X(GetPhysicalDeviceFeatures2)            \
  X(GetPhysicalDeviceMemoryProperties)     \
  X(GetPhysicalDeviceQueueFamilyProperties) \
  X(EnumerateDeviceExtensionProperties)    \
  X(CreateDevice)                          \
  X(GetDeviceProcAddr)

#define KLAB_VK_DEVICE_FUNCTIONS(X) \
  X(DestroyDevice)                  \
  X(GetDeviceQueue)                 \
  X(AllocateMemory)                 \
  X(FreeMemory)                     \
  X(MapMemory)                      \
  X(CreateBuffer)                   \
  X(DestroyBuffer)                  \
  X(GetBufferMemoryRequirements)    \
  X(BindBufferMemory)               \
  X(CreateShaderModule)             \
  X(DestroyShaderModule)            \
  X(CreateDescriptorSetLayout)      \
  X(DestroyDescriptorSetLayout)     \
  X(CreatePipelineLayout)           \
  X(DestroyPipelineLayout)          \
  X(CreateComputePipelines)         \
  X(DestroyPipeline)                \
  X(CreateDescriptorPool)           \
  X(DestroyDescriptorPool)          \
  X(AllocateDescriptorSets)         \
  X(UpdateDescriptorSets)           \
  X(CreateCommandPool)              \
  X(DestroyCommandPool)             \
  X(ResetCommandPool)               \
  X(AllocateCommandBuffers)         \
  X(BeginCommandBuffer)             \
  X(EndCommandBuffer)               \
  X(CmdPipelineBarrier)             \
  X(CmdCopyBuffer)                  \
  X(CmdFillBuffer)                  \
  X(CmdBindPipeline)                \
  X(CmdBindDescriptorSets)          \
  X(CmdPushConstants)               \
  X(CmdDispatch)                    \
  X(CmdDispatchBase)                \
  X(CmdResetQueryPool)              \
  X(CmdWriteTimestamp)              \
  X(CreateQueryPool)                \
  X(DestroyQueryPool)               \
  X(GetQueryPoolResults)            \
  X(CreateFence)                    \
  X(DestroyFence)                   \
  X(ResetFences)                    \
  X(WaitForFences)                  \
  X(QueueSubmit)

// Null where the device lacks the extension or the version.
#define KLAB_VK_OPTIONAL_DEVICE_FUNCTIONS(X)     \
  X(GetBufferDeviceAddress)                      \
  X(GetMemoryHostPointerPropertiesEXT)           \
  X(GetPipelineExecutablePropertiesKHR)          \
  X(GetPipelineExecutableStatisticsKHR)          \
  X(GetPipelineExecutableInternalRepresentationsKHR)

#define KLAB_VK_MEMBER(name) PFN_vk##name name = nullptr;
struct InstanceFunctions {
  KLAB_VK_INSTANCE_FUNCTIONS(KLAB_VK_MEMBER)
};
struct DeviceFunctions {
  KLAB_VK_DEVICE_FUNCTIONS(KLAB_VK_MEMBER)
  KLAB_VK_OPTIONAL_DEVICE_FUNCTIONS(KLAB_VK_MEMBER)
};
#undef KLAB_VK_MEMBER

/// "VK_ERROR_DEVICE_LOST", or the number.
std::string result_name(VkResult result);
/// Maps a failed call to an Error: device_fault, out_of_memory, else `otherwise`. `call` is the function's name.
tl::unexpected<Error> vk_fail(VkResult result, const char* call, ErrorCode otherwise = ErrorCode::launch_failed);

#define KLAB_VK_TRY(call_expression, name)                                              \
  do {                                                                                  \
    if (const VkResult klab_vk_ = (call_expression); klab_vk_ != VK_SUCCESS)            \
      return ::klab::gpu::vulkan::vk_fail(klab_vk_, name);                              \
  } while (false)

}  // namespace klab::gpu::vulkan
