// SPDX-License-Identifier: Apache-2.0
// Memory and buffers: where each lies, how it is mapped, which addresses the program knows.
#include <algorithm>

#include "shim/vulkan/state.h"

namespace klab::shim {
namespace {

// Newer than the headers that this layer is built with: VK_KHR_map_memory2 and VK_KHR_maintenance5, both in
// Vulkan 1.4.
struct MemoryMapInfo {
  VkStructureType type;
  const void* next;
  VkFlags flags;
  VkDeviceMemory memory;
  VkDeviceSize offset, size;
};
struct MemoryUnmapInfo {
  VkStructureType type;
  const void* next;
  VkFlags flags;
  VkDeviceMemory memory;
};
using MapMemory2Function = VkResult(VKAPI_PTR*)(VkDevice, const MemoryMapInfo*, void**);
using UnmapMemory2Function = VkResult(VKAPI_PTR*)(VkDevice, const MemoryUnmapInfo*);
struct BufferUsage2 {
  VkStructureType type;
  const void* next;
  VkFlags64 usage;
};
constexpr auto kBufferUsage2 = static_cast<VkStructureType>(1000470006);

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

// The device's lock is held.
void note_mapping(Device& d, VkDeviceMemory memory, VkDeviceSize offset, VkDeviceSize size, void* data) {
  const auto it = d.memories.find(memory);
  if (it == d.memories.end()) return;
  Memory& m = *it->second;
  m.mapped = data;
  m.map_offset = offset;
  m.map_size = size == VK_WHOLE_SIZE ? m.size - std::min<VkDeviceSize>(offset, m.size) : size;
}

// The lock is held over the driver's call: a snapshot may be mapping the same memory.
VKAPI_ATTR VkResult VKAPI_CALL MapMemory(VkDevice device, VkDeviceMemory memory, VkDeviceSize offset,
                                         VkDeviceSize size, VkMemoryMapFlags flags, void** data) {
  Device& d = *find_device(device);
  std::lock_guard snapshot(d.memory_lock);
  std::lock_guard hold(d.lock);
  const VkResult result = d.next.MapMemory(device, memory, offset, size, flags, data);
  if (result >= 0) note_mapping(d, memory, offset, size, *data);
  return result;
}

template <auto Next>
VkResult VKAPI_CALL map_memory2(VkDevice device, const MemoryMapInfo* info, void** data) {
  Device& d = *find_device(device);
  std::lock_guard snapshot(d.memory_lock);
  std::lock_guard hold(d.lock);
  const VkResult result = reinterpret_cast<MapMemory2Function>(d.next.*Next)(device, info, data);
  if (result >= 0) note_mapping(d, info->memory, info->offset, info->size, *data);
  return result;
}

template <auto Next>
VkResult VKAPI_CALL unmap_memory2(VkDevice device, const MemoryUnmapInfo* info) {
  Device& d = *find_device(device);
  std::lock_guard snapshot(d.memory_lock);
  std::lock_guard hold(d.lock);
  if (const auto it = d.memories.find(info->memory); it != d.memories.end()) it->second->mapped = nullptr;
  return reinterpret_cast<UnmapMemory2Function>(d.next.*Next)(device, info);
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
  // Where this structure is given, it is what counts.
  auto* usage2 = const_cast<BufferUsage2*>(in_chain<BufferUsage2>(info->pNext, kBufferUsage2));
  const VkFlags64 before = usage2 != nullptr ? usage2->usage : 0;
  const auto usage = usage2 != nullptr ? static_cast<VkBufferUsageFlags>(before) : info->usage;
  const bool copied = d.mode == KLAB_MODE_CAPTURE || (usage & VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT) != 0;
  if (copied && (info->flags & VK_BUFFER_CREATE_PROTECTED_BIT) == 0) {
    mine.usage |= VK_BUFFER_USAGE_TRANSFER_SRC_BIT;
    if (usage2 != nullptr) usage2->usage |= VK_BUFFER_USAGE_TRANSFER_SRC_BIT;
  }
  if (d.address_capture && (usage & VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT) != 0)
    mine.flags |= VK_BUFFER_CREATE_DEVICE_ADDRESS_CAPTURE_REPLAY_BIT;
  VkResult result = d.next.CreateBuffer(device, &mine, allocator, out);
  if (usage2 != nullptr) usage2->usage = before;
  if (result < 0) result = d.next.CreateBuffer(device, info, allocator, out);  // not for our sake
  if (result >= 0)
    quietly([&] {
      auto b = std::make_shared<Buffer>();
      b->handle = *out;
      b->size = info->size;
      b->usage = usage;
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
  return {
      KLAB_HOOK(AllocateMemory, kCapture),
      KLAB_HOOK(FreeMemory, kCapture),
      KLAB_HOOK(MapMemory, kCapture),
      KLAB_HOOK(UnmapMemory, kCapture),
      {"vkMapMemory2", reinterpret_cast<PFN_vkVoidFunction>(&map_memory2<&DeviceNext::map2>), kCapture},
      {"vkMapMemory2KHR", reinterpret_cast<PFN_vkVoidFunction>(&map_memory2<&DeviceNext::map2_khr>),
       kCapture},
      {"vkUnmapMemory2", reinterpret_cast<PFN_vkVoidFunction>(&unmap_memory2<&DeviceNext::unmap2>), kCapture},
      {"vkUnmapMemory2KHR", reinterpret_cast<PFN_vkVoidFunction>(&unmap_memory2<&DeviceNext::unmap2_khr>),
       kCapture},
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
