// SPDX-License-Identifier: Apache-2.0
// The next layer's functions: what this layer calls.
#pragma once
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

namespace klab::shim {

#define KLAB_INSTANCE_FUNCTIONS(X)                                            \
  X(DestroyInstance)                                                          \
  X(GetPhysicalDeviceProperties)                                              \
  X(GetPhysicalDeviceProperties2)                                             \
  X(GetPhysicalDeviceProperties2KHR) X(GetPhysicalDeviceMemoryProperties)     \
      X(GetPhysicalDeviceQueueFamilyProperties) X(GetPhysicalDeviceFeatures2) \
          X(EnumerateDeviceExtensionProperties)

#define KLAB_DEVICE_FUNCTIONS(X)                                                                             \
  X(DestroyDevice)                                                                                           \
  X(GetDeviceQueue)                                                                                          \
  X(GetDeviceQueue2)                                                                                         \
  X(QueueSubmit) X(QueueSubmit2) X(QueueSubmit2KHR) X(QueueWaitIdle) X(QueueBindSparse) X(                   \
      QueuePresentKHR) X(DeviceWaitIdle) X(WaitForFences) X(GetFenceStatus) X(CreateFence) X(DestroyFence)   \
      X(WaitSemaphores) X(WaitSemaphoresKHR) X(GetSemaphoreCounterValue) X(GetSemaphoreCounterValueKHR) X(   \
          AllocateMemory) X(FreeMemory) X(MapMemory) X(UnmapMemory) X(InvalidateMappedMemoryRanges)          \
          X(CreateBuffer) X(DestroyBuffer) X(BindBufferMemory) X(BindBufferMemory2) X(                       \
              BindBufferMemory2KHR) X(GetBufferMemoryRequirements) X(GetBufferDeviceAddress)                 \
              X(GetBufferDeviceAddressKHR) X(GetBufferDeviceAddressEXT) X(GetBufferOpaqueCaptureAddress) X(  \
                  GetDeviceMemoryOpaqueCaptureAddress) X(GetBufferOpaqueCaptureAddressKHR)                   \
                  X(GetDeviceMemoryOpaqueCaptureAddressKHR) X(CreateShaderModule) X(DestroyShaderModule) X(  \
                      CreateComputePipelines) X(DestroyPipeline) X(CreateDescriptorSetLayout)                \
                      X(DestroyDescriptorSetLayout) X(CreatePipelineLayout) X(DestroyPipelineLayout) X(      \
                          CreateDescriptorPool) X(DestroyDescriptorPool) X(ResetDescriptorPool)              \
                          X(AllocateDescriptorSets) X(FreeDescriptorSets) X(UpdateDescriptorSets) X(         \
                              CreateDescriptorUpdateTemplate) X(CreateDescriptorUpdateTemplateKHR)           \
                              X(DestroyDescriptorUpdateTemplate) X(DestroyDescriptorUpdateTemplateKHR) X(    \
                                  UpdateDescriptorSetWithTemplate) X(UpdateDescriptorSetWithTemplateKHR)     \
                                  X(CreateCommandPool) X(DestroyCommandPool) X(ResetCommandPool) X(          \
                                      AllocateCommandBuffers) X(FreeCommandBuffers) X(BeginCommandBuffer)    \
                                      X(EndCommandBuffer) X(ResetCommandBuffer) X(CreateQueryPool) X(        \
                                          DestroyQueryPool) X(GetQueryPoolResults) X(ResetQueryPool)         \
                                          X(ResetQueryPoolEXT) X(SetDebugUtilsObjectNameEXT) X(              \
                                              DebugMarkerSetObjectNameEXT) X(CmdDispatch) X(CmdDispatchBase) \
                                              X(CmdDispatchBaseKHR) X(CmdDispatchIndirect)                   \
                                                  X(CmdBindPipeline) X(CmdBindDescriptorSets)                \
                                                      X(CmdPushConstants) X(CmdPushDescriptorSetKHR)         \
                                                          X(CmdPushDescriptorSetWithTemplateKHR)             \
                                                              X(CmdExecuteCommands) X(CmdPipelineBarrier)    \
                                                                  X(CmdCopyBuffer) X(CmdResetQueryPool)      \
                                                                      X(CmdWriteTimestamp)

#define KLAB_MEMBER_(name) PFN_vk##name name = nullptr;
struct InstanceNext {
  PFN_vkGetInstanceProcAddr GetInstanceProcAddr = nullptr;
  KLAB_INSTANCE_FUNCTIONS(KLAB_MEMBER_)
};
struct DeviceNext {
  PFN_vkGetDeviceProcAddr GetDeviceProcAddr = nullptr;
  // vkMapMemory2 and its kin, which the headers do not have.
  PFN_vkVoidFunction map2 = nullptr, map2_khr = nullptr, unmap2 = nullptr, unmap2_khr = nullptr;
  KLAB_DEVICE_FUNCTIONS(KLAB_MEMBER_)
};
#undef KLAB_MEMBER_

/// Positions of all command-buffer commands, for the table of forwarders.
enum class Command : unsigned {
#define KLAB_OWN(name) name,
#define KLAB_CMD(name, effect) name,
#include "shim/vulkan/commands.def"
#undef KLAB_OWN
#undef KLAB_CMD
  count_
};

}  // namespace klab::shim
