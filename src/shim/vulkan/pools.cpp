// SPDX-License-Identifier: Apache-2.0
// Command pools, and the beginning and end of a recording.
#include <algorithm>

#include "shim/vulkan/record.h"

namespace klab::shim {
namespace {

VKAPI_ATTR VkResult VKAPI_CALL CreateCommandPool(VkDevice device, const VkCommandPoolCreateInfo* info,
                                                 const VkAllocationCallbacks* allocator, VkCommandPool* out) {
  Device& d = *find_device(device);
  const VkResult result = d.next.CreateCommandPool(device, info, allocator, out);
  if (result >= 0)
    quietly([&] {
      std::lock_guard hold(d.lock);
      d.pool_families[*out] = info->queueFamilyIndex;
      d.pool_buffers[*out].clear();
    });
  return result;
}

VKAPI_ATTR void VKAPI_CALL DestroyCommandPool(VkDevice device, VkCommandPool pool,
                                              const VkAllocationCallbacks* allocator) {
  Device& d = *find_device(device);
  std::vector<VkCommandBuffer> gone;
  {
    std::lock_guard hold(d.lock);
    gone.swap(d.pool_buffers[pool]);
    d.pool_buffers.erase(pool);
    d.pool_families.erase(pool);
  }
  for (VkCommandBuffer b : gone) forget_commands(b);
  d.next.DestroyCommandPool(device, pool, allocator);
}

VKAPI_ATTR VkResult VKAPI_CALL ResetCommandPool(VkDevice device, VkCommandPool pool,
                                                VkCommandPoolResetFlags flags) {
  Device& d = *find_device(device);
  quietly([&] {
    std::vector<VkCommandBuffer> all;
    {
      std::lock_guard hold(d.lock);
      all = d.pool_buffers[pool];
    }
    for (VkCommandBuffer b : all)
      if (CommandBuffer* c = find_commands(b)) c->forget_recording();
  });
  return d.next.ResetCommandPool(device, pool, flags);
}

VKAPI_ATTR VkResult VKAPI_CALL AllocateCommandBuffers(VkDevice device,
                                                      const VkCommandBufferAllocateInfo* info,
                                                      VkCommandBuffer* out) {
  Device& d = *find_device(device);
  const VkResult result = d.next.AllocateCommandBuffers(device, info, out);
  if (result >= 0)
    quietly([&] {
      std::uint32_t family = 0;
      {
        std::lock_guard hold(d.lock);
        family = d.pool_families[info->commandPool];
        auto& all = d.pool_buffers[info->commandPool];
        all.insert(all.end(), out, out + info->commandBufferCount);
      }
      for (std::uint32_t i = 0; i < info->commandBufferCount; ++i) {
        auto* c = new CommandBuffer;
        c->handle = out[i];
        c->device = &d;
        c->pool = info->commandPool;
        c->family = family;
        c->level = info->level;
        c->segments.assign(1, out[i]);
        c->current = out[i];
        remember_commands(out[i], c);
      }
    });
  return result;
}

VKAPI_ATTR void VKAPI_CALL FreeCommandBuffers(VkDevice device, VkCommandPool pool, std::uint32_t count,
                                              const VkCommandBuffer* buffers) {
  Device& d = *find_device(device);
  for (std::uint32_t i = 0; i < count; ++i) {
    CommandBuffer* c = find_commands(buffers[i]);
    if (c == nullptr) continue;
    c->forget_recording();
    if (!c->spare.empty())
      d.next.FreeCommandBuffers(device, pool, static_cast<std::uint32_t>(c->spare.size()), c->spare.data());
    forget_commands(buffers[i]);
    std::lock_guard hold(d.lock);
    auto& all = d.pool_buffers[pool];
    if (const auto it = std::find(all.begin(), all.end(), buffers[i]); it != all.end()) {
      *it = all.back();
      all.pop_back();
    }
  }
  d.next.FreeCommandBuffers(device, pool, count, buffers);
}

VKAPI_ATTR VkResult VKAPI_CALL BeginCommandBuffer(VkCommandBuffer handle,
                                                  const VkCommandBufferBeginInfo* info) {
  CommandBuffer* c = find_commands(handle);
  if (c == nullptr) return find_device(handle)->next.BeginCommandBuffer(handle, info);
  c->forget_recording();
  c->usage = info->flags;
  c->inheritance = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_INHERITANCE_INFO};
  c->inherits_more =
      info->pNext != nullptr || (info->flags & VK_COMMAND_BUFFER_USAGE_RENDER_PASS_CONTINUE_BIT) != 0;
  if (c->level == VK_COMMAND_BUFFER_LEVEL_SECONDARY && info->pInheritanceInfo != nullptr) {
    c->inheritance = *info->pInheritanceInfo;
    c->inherits_more = c->inherits_more || c->inheritance.pNext != nullptr;
    c->inheritance.pNext = nullptr;
    c->inheritance.renderPass = VK_NULL_HANDLE;
    c->inheritance.framebuffer = VK_NULL_HANDLE;
  }
  return c->device->next.BeginCommandBuffer(handle, info);
}

VKAPI_ATTR VkResult VKAPI_CALL EndCommandBuffer(VkCommandBuffer handle) {
  CommandBuffer* c = find_commands(handle);
  if (c == nullptr) return find_device(handle)->next.EndCommandBuffer(handle);
  c->split_pending = false;
  const VkResult result = c->device->next.EndCommandBuffer(c->current);
  return c->failure < 0 ? c->failure : result;
}

VKAPI_ATTR VkResult VKAPI_CALL ResetCommandBuffer(VkCommandBuffer handle, VkCommandBufferResetFlags flags) {
  CommandBuffer* c = find_commands(handle);
  if (c == nullptr) return find_device(handle)->next.ResetCommandBuffer(handle, flags);
  c->forget_recording();
  for (VkCommandBuffer b : c->spare) c->device->next.ResetCommandBuffer(b, flags);
  return c->device->next.ResetCommandBuffer(handle, flags);
}

}  // namespace

std::vector<Hook> pool_hooks() {
  return {KLAB_HOOK(CreateCommandPool, kBoth),  KLAB_HOOK(DestroyCommandPool, kBoth),
          KLAB_HOOK(ResetCommandPool, kBoth),   KLAB_HOOK(AllocateCommandBuffers, kBoth),
          KLAB_HOOK(FreeCommandBuffers, kBoth), KLAB_HOOK(BeginCommandBuffer, kBoth),
          KLAB_HOOK(EndCommandBuffer, kBoth),   KLAB_HOOK(ResetCommandBuffer, kBoth)};
}

}  // namespace klab::shim
