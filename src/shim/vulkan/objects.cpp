// SPDX-License-Identifier: Apache-2.0
// Memory and buffers: where each lies, how it is mapped, which addresses the program knows.
#include <algorithm>

#include "shim/vulkan/state.h"

namespace klab::shim {
namespace {

VKAPI_ATTR VkResult VKAPI_CALL AllocateMemory(VkDevice device, const VkMemoryAllocateInfo* info,
                                              const VkAllocationCallbacks* allocator, VkDeviceMemory* out) {
  Device& d = *find_device(device);
  auto* flags = const_cast<VkMemoryAllocateFlagsInfo*>(
      in_chain<VkMemoryAllocateFlagsInfo>(info->pNext, VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO));
  const bool ask_address =
      d.address_capture && flags != nullptr && (flags->flags & VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT) != 0;
  const VkMemoryAllocateFlags before = ask_address ? flags->flags : 0;
  if (ask_address) flags->flags |= VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_CAPTURE_REPLAY_BIT;
  const VkResult result = d.next.AllocateMemory(device, info, allocator, out);
  if (ask_address) flags->flags = before;
  if (result >= 0)
    quietly([&] {
      auto m = std::make_shared<Memory>();
      m->handle = *out;
      m->size = info->allocationSize;
      m->address_capture = ask_address;
      if (info->memoryTypeIndex < d.memory_properties.memoryTypeCount)
        m->flags = d.memory_properties.memoryTypes[info->memoryTypeIndex].propertyFlags;
      std::lock_guard hold(d.lock);
      m->id = d.next_memory++;
      d.memories[*out] = m;
    });
  return result;
}

VKAPI_ATTR void VKAPI_CALL FreeMemory(VkDevice device, VkDeviceMemory memory,
                                      const VkAllocationCallbacks* allocator) {
  Device& d = *find_device(device);
  std::lock_guard snapshot(d.memory_lock);
  {
    std::lock_guard hold(d.lock);
    if (const auto it = d.memories.find(memory); it != d.memories.end()) {
      it->second->alive = false;
      it->second->mapped = nullptr;
      d.memories.erase(it);
    }
  }
  d.next.FreeMemory(device, memory, allocator);
}

// The lock is held over the driver's call: a snapshot may be mapping the same memory.
VKAPI_ATTR VkResult VKAPI_CALL MapMemory(VkDevice device, VkDeviceMemory memory, VkDeviceSize offset,
                                         VkDeviceSize size, VkMemoryMapFlags flags, void** data) {
  Device& d = *find_device(device);
  std::lock_guard snapshot(d.memory_lock);
  std::lock_guard hold(d.lock);
  const VkResult result = d.next.MapMemory(device, memory, offset, size, flags, data);
  if (result >= 0)
    if (const auto it = d.memories.find(memory); it != d.memories.end()) {
      Memory& m = *it->second;
      m.mapped = *data;
      m.map_offset = offset;
      m.map_size = size == VK_WHOLE_SIZE ? m.size - std::min<VkDeviceSize>(offset, m.size) : size;
    }
  return result;
}

VKAPI_ATTR void VKAPI_CALL UnmapMemory(VkDevice device, VkDeviceMemory memory) {
  Device& d = *find_device(device);
  std::lock_guard snapshot(d.memory_lock);
  std::lock_guard hold(d.lock);
  if (const auto it = d.memories.find(memory); it != d.memories.end()) it->second->mapped = nullptr;
  d.next.UnmapMemory(device, memory);
}

VKAPI_ATTR VkResult VKAPI_CALL CreateBuffer(VkDevice device, const VkBufferCreateInfo* info,
                                            const VkAllocationCallbacks* allocator, VkBuffer* out) {
  Device& d = *find_device(device);
  VkBufferCreateInfo mine = *info;
  const bool copied = d.mode == KLAB_MODE_CAPTURE || (info->usage & VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT) != 0;
  if (copied && (info->flags & VK_BUFFER_CREATE_PROTECTED_BIT) == 0)
    mine.usage |= VK_BUFFER_USAGE_TRANSFER_SRC_BIT;
  if (d.address_capture && (info->usage & VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT) != 0)
    mine.flags |= VK_BUFFER_CREATE_DEVICE_ADDRESS_CAPTURE_REPLAY_BIT;
  VkResult result = d.next.CreateBuffer(device, &mine, allocator, out);
  if (result < 0) result = d.next.CreateBuffer(device, info, allocator, out);  // not for our sake
  if (result >= 0)
    quietly([&] {
      auto b = std::make_shared<Buffer>();
      b->handle = *out;
      b->size = info->size;
      b->usage = info->usage;
      b->flags = info->flags;
      std::lock_guard hold(d.lock);
      d.buffers[*out] = b;
    });
  return result;
}

VKAPI_ATTR void VKAPI_CALL DestroyBuffer(VkDevice device, VkBuffer buffer,
                                         const VkAllocationCallbacks* allocator) {
  Device& d = *find_device(device);
  std::lock_guard snapshot(d.memory_lock);
  {
    std::lock_guard hold(d.lock);
    if (const auto it = d.buffers.find(buffer); it != d.buffers.end()) {
      it->second->alive = false;
      d.buffers.erase(it);
    }
  }
  d.next.DestroyBuffer(device, buffer, allocator);
}

void note_bind(Device& d, VkBuffer buffer, VkDeviceMemory memory, VkDeviceSize offset) {
  std::lock_guard hold(d.lock);
  const auto b = d.buffers.find(buffer);
  const auto m = d.memories.find(memory);
  if (b == d.buffers.end() || m == d.memories.end()) return;
  b->second->memory = m->second;
  b->second->offset = offset;
}

VKAPI_ATTR VkResult VKAPI_CALL BindBufferMemory(VkDevice device, VkBuffer buffer, VkDeviceMemory memory,
                                                VkDeviceSize offset) {
  Device& d = *find_device(device);
  const VkResult result = d.next.BindBufferMemory(device, buffer, memory, offset);
  if (result >= 0) quietly([&] { note_bind(d, buffer, memory, offset); });
  return result;
}

template <auto Next>
VkResult bind_several(VkDevice device, std::uint32_t count, const VkBindBufferMemoryInfo* infos) {
  Device& d = *find_device(device);
  const VkResult result = (d.next.*Next)(device, count, infos);
  if (result >= 0)
    quietly([&] {
      for (std::uint32_t i = 0; i < count; ++i)
        note_bind(d, infos[i].buffer, infos[i].memory, infos[i].memoryOffset);
    });
  return result;
}
VKAPI_ATTR VkResult VKAPI_CALL BindBufferMemory2(VkDevice device, std::uint32_t count,
                                                 const VkBindBufferMemoryInfo* infos) {
  return bind_several<&DeviceNext::BindBufferMemory2>(device, count, infos);
}
VKAPI_ATTR VkResult VKAPI_CALL BindBufferMemory2KHR(VkDevice device, std::uint32_t count,
                                                    const VkBindBufferMemoryInfo* infos) {
  return bind_several<&DeviceNext::BindBufferMemory2KHR>(device, count, infos);
}

template <auto Next>
VkDeviceAddress address_of(VkDevice device, const VkBufferDeviceAddressInfo* info) {
  Device& d = *find_device(device);
  const VkDeviceAddress address = (d.next.*Next)(device, info);
  quietly([&] {
    std::lock_guard hold(d.lock);
    if (const auto it = d.buffers.find(info->buffer); it != d.buffers.end() && address != 0) {
      it->second->address = address;
      d.any_address = true;
    }
  });
  return address;
}
VKAPI_ATTR VkDeviceAddress VKAPI_CALL GetBufferDeviceAddress(VkDevice device,
                                                             const VkBufferDeviceAddressInfo* info) {
  return address_of<&DeviceNext::GetBufferDeviceAddress>(device, info);
}
VKAPI_ATTR VkDeviceAddress VKAPI_CALL GetBufferDeviceAddressKHR(VkDevice device,
                                                                const VkBufferDeviceAddressInfo* info) {
  return address_of<&DeviceNext::GetBufferDeviceAddressKHR>(device, info);
}
VKAPI_ATTR VkDeviceAddress VKAPI_CALL GetBufferDeviceAddressEXT(VkDevice device,
                                                                const VkBufferDeviceAddressInfo* info) {
  return address_of<&DeviceNext::GetBufferDeviceAddressEXT>(device, info);
}

}  // namespace

std::vector<Hook> object_hooks() {
  return {KLAB_HOOK(AllocateMemory, kCapture),
          KLAB_HOOK(FreeMemory, kCapture),
          KLAB_HOOK(MapMemory, kCapture),
          KLAB_HOOK(UnmapMemory, kCapture),
          KLAB_HOOK(CreateBuffer, kBoth),
          KLAB_HOOK(DestroyBuffer, kBoth),
          KLAB_HOOK(BindBufferMemory, kCapture),
          KLAB_HOOK(BindBufferMemory2, kCapture),
          KLAB_HOOK(BindBufferMemory2KHR, kCapture),
          KLAB_HOOK(GetBufferDeviceAddress, kCapture),
          KLAB_HOOK(GetBufferDeviceAddressKHR, kCapture),
          KLAB_HOOK(GetBufferDeviceAddressEXT, kCapture)};
}

}  // namespace klab::shim
