// SPDX-License-Identifier: Apache-2.0
#include "shim/vulkan/reader.h"

#include <algorithm>
#include <cstdlib>
#include <map>

namespace klab::shim {
namespace {

constexpr std::uint64_t kStagingBytes = 32u << 20;
constexpr std::uint64_t kCopyLimitNs = 30'000'000'000;

bool force_staging() {
  const char* value = std::getenv("KLAB_SHIM_FORCE_STAGING");
  return value != nullptr && *value == '1';
}

}  // namespace

struct Snapshotter {
  struct Family {
    VkCommandPool pool = VK_NULL_HANDLE;
    VkQueryPool queries = VK_NULL_HANDLE;
    VkCommandBuffer copy = VK_NULL_HANDLE;
    Helpers helpers;
  };
  std::map<std::uint32_t, Family> families;
  VkBuffer staging = VK_NULL_HANDLE;
  VkDeviceMemory memory = VK_NULL_HANDLE;
  std::byte* mapped = nullptr;
  bool coherent = false, failed = false;
};

namespace {

Snapshotter::Family* family_of(Device& d, std::uint32_t family) {
  if (d.snapshotter == nullptr) d.snapshotter = new Snapshotter;
  auto& f = d.snapshotter->families[family];
  if (f.helpers.flush != VK_NULL_HANDLE) return &f;
  const DeviceNext& next = d.next;
  VkCommandPoolCreateInfo pool{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, nullptr,
                               VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT, family};
  if (f.pool == VK_NULL_HANDLE && next.CreateCommandPool(d.handle, &pool, nullptr, &f.pool) < 0)
    return nullptr;
  VkCommandBuffer made[4];
  VkCommandBufferAllocateInfo allocate{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, nullptr, f.pool,
                                       VK_COMMAND_BUFFER_LEVEL_PRIMARY, 4};
  if (next.AllocateCommandBuffers(d.handle, &allocate, made) < 0) return nullptr;
  for (VkCommandBuffer c : made) d.set_loader_data(d.handle, c);
  const VkCommandBufferBeginInfo begin{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, nullptr,
                                       VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT, nullptr};
  next.BeginCommandBuffer(made[0], &begin);
  const VkMemoryBarrier all{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, VK_ACCESS_MEMORY_WRITE_BIT,
                            VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT | VK_ACCESS_HOST_READ_BIT};
  next.CmdPipelineBarrier(made[0], VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
                          VK_PIPELINE_STAGE_ALL_COMMANDS_BIT | VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &all, 0,
                          nullptr, 0, nullptr);
  if (next.EndCommandBuffer(made[0]) < 0) return nullptr;
  f.copy = made[3];
  const bool timed = family < d.families.size() && d.families[family].timestamp_bits != 0;
  VkQueryPoolCreateInfo queries{VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO};
  queries.queryType = VK_QUERY_TYPE_TIMESTAMP;
  queries.queryCount = 2;
  if (timed && next.CreateQueryPool(d.handle, &queries, nullptr, &f.queries) >= 0) {
    next.BeginCommandBuffer(made[1], &begin);
    next.CmdResetQueryPool(made[1], f.queries, 0, 2);
    next.CmdWriteTimestamp(made[1], VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, f.queries, 0);
    const bool first = next.EndCommandBuffer(made[1]) >= 0;
    next.BeginCommandBuffer(made[2], &begin);
    next.CmdWriteTimestamp(made[2], VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, f.queries, 1);
    if (next.EndCommandBuffer(made[2]) >= 0 && first) {
      f.helpers.begin_time = made[1];
      f.helpers.end_time = made[2];
    }
  }
  f.helpers.flush = made[0];
  return &f;
}

// The best memory to read on the host: cached and coherent, then cached, then any that is visible.
bool make_staging(Device& d) {
  Snapshotter& s = *d.snapshotter;
  if (s.mapped != nullptr) return true;
  if (s.failed) return false;
  s.failed = true;
  VkBufferCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
  info.size = kStagingBytes;
  info.usage = VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  if (d.next.CreateBuffer(d.handle, &info, nullptr, &s.staging) < 0) return false;
  VkMemoryRequirements needs;
  d.next.GetBufferMemoryRequirements(d.handle, s.staging, &needs);
  constexpr VkMemoryPropertyFlags kVisible = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT;
  for (const VkMemoryPropertyFlags want :
       {kVisible | VK_MEMORY_PROPERTY_HOST_CACHED_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
        kVisible | VK_MEMORY_PROPERTY_HOST_CACHED_BIT, kVisible})
    for (std::uint32_t i = 0; i < d.memory_properties.memoryTypeCount; ++i) {
      const VkMemoryPropertyFlags flags = d.memory_properties.memoryTypes[i].propertyFlags;
      if ((needs.memoryTypeBits >> i & 1) == 0 || (flags & want) != want) continue;
      VkMemoryAllocateInfo allocate{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, nullptr, needs.size, i};
      void* mapped = nullptr;
      if (d.next.AllocateMemory(d.handle, &allocate, nullptr, &s.memory) < 0) continue;
      if (d.next.BindBufferMemory(d.handle, s.staging, s.memory, 0) < 0 ||
          d.next.MapMemory(d.handle, s.memory, 0, VK_WHOLE_SIZE, 0, &mapped) < 0)
        return false;
      s.mapped = static_cast<std::byte*>(mapped);
      s.coherent = (flags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT) != 0;
      s.failed = false;
      return true;
    }
  return false;
}

}  // namespace

VkFence make_fence(Device& d) {
  const VkFenceCreateInfo info{VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
  VkFence fence = VK_NULL_HANDLE;
  return d.next.CreateFence(d.handle, &info, nullptr, &fence) < 0 ? VK_NULL_HANDLE : fence;
}

VkResult wait_fence(Device& d, VkFence fence, std::uint64_t limit_ns) {
  const std::uint64_t end = now_ns() + limit_ns;
  // Short waits: a driver that counts a long one from a wrong clock cannot hold the program.
  for (;;) {
    const std::uint64_t now = now_ns();
    const std::uint64_t left = end > now ? end - now : 0;
    const VkResult result =
        d.next.WaitForFences(d.handle, 1, &fence, VK_TRUE, std::min<std::uint64_t>(left, 100'000'000));
    if (result != VK_TIMEOUT || left == 0) return result;
  }
}

Helpers helpers(Device& d, std::uint32_t family) {
  Helpers none;
  quietly([&] {
    if (const auto* f = family_of(d, family)) none = f->helpers;
  });
  return none;
}

double helper_time(Device& d, std::uint32_t family) {
  const auto* f = family_of(d, family);
  std::uint64_t ticks[2] = {0, 0};
  if (f == nullptr || f->queries == VK_NULL_HANDLE ||
      d.next.GetQueryPoolResults(d.handle, f->queries, 0, 2, sizeof ticks, ticks, 8,
                                 VK_QUERY_RESULT_64_BIT) != VK_SUCCESS)
    return 0;
  const std::uint32_t bits = d.families[family].timestamp_bits;
  const std::uint64_t mask = bits >= 64 ? ~0ull : (1ull << bits) - 1;
  return static_cast<double>((ticks[1] - ticks[0]) & mask) * d.properties.limits.timestampPeriod;
}

void free_helpers(Device& d) {
  if (d.snapshotter == nullptr) return;
  for (auto& [index, f] : d.snapshotter->families) {
    if (f.queries != VK_NULL_HANDLE) d.next.DestroyQueryPool(d.handle, f.queries, nullptr);
    if (f.pool != VK_NULL_HANDLE) d.next.DestroyCommandPool(d.handle, f.pool, nullptr);
  }
  if (d.snapshotter->staging != VK_NULL_HANDLE)
    d.next.DestroyBuffer(d.handle, d.snapshotter->staging, nullptr);
  if (d.snapshotter->memory != VK_NULL_HANDLE) d.next.FreeMemory(d.handle, d.snapshotter->memory, nullptr);
  delete d.snapshotter;
  d.snapshotter = nullptr;
}

Reader::~Reader() {
  if (unmap_) d_.next.UnmapMemory(d_.handle, memory_->handle);
}

bool Reader::open(const Ref<Memory>& memory, const std::vector<Ref<Buffer>>& buffers) {
  memory_ = memory;
  buffers_ = buffers;
  window_size_ = 0;
  const Memory& m = *memory;
  const bool coherent = (m.flags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT) != 0;
  constexpr VkMemoryPropertyFlags kWell =
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
  if ((m.flags & kWell) == kWell && !force_staging()) {
    std::uint64_t begin = ~0ull, end = 0;
    for (const auto& b : buffers)
      begin = std::min(begin, b->offset), end = std::max(end, b->offset + b->size);
    if (m.mapped != nullptr) {
      // The program's own mapping; incoherent, invalidating it could drop what the program has not flushed
      // yet.
      if (coherent && m.map_offset <= begin && end <= m.map_offset + m.map_size) {
        base_ = static_cast<const std::byte*>(m.mapped) - m.map_offset;
        return true;
      }
    } else {
      void* mapped = nullptr;
      if (d_.next.MapMemory(d_.handle, m.handle, 0, VK_WHOLE_SIZE, 0, &mapped) >= 0) {
        unmap_ = true;
        base_ = static_cast<const std::byte*>(mapped);
        const VkMappedMemoryRange range{VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE, nullptr, m.handle, 0,
                                        VK_WHOLE_SIZE};
        if (!coherent) d_.next.InvalidateMappedMemoryRanges(d_.handle, 1, &range);
        return true;
      }
    }
  }
  return family_of(d_, queue_.family) != nullptr && make_staging(d_);
}

const std::byte* Reader::at(std::uint64_t offset, std::size_t size) {
  if (base_ != nullptr) return base_ + offset;
  if (offset < window_ || offset + size > window_ + window_size_)
    if (!fill(offset, size)) return nullptr;
  return d_.snapshotter->mapped + (offset - window_);
}

// Copies from `offset` on into the staging buffer: at least `size` bytes, else as much as fits.
bool Reader::fill(std::uint64_t offset, std::uint64_t size) {
  Snapshotter& s = *d_.snapshotter;
  Snapshotter::Family* f = family_of(d_, queue_.family);
  const DeviceNext& next = d_.next;
  const VkCommandBufferBeginInfo begin{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, nullptr,
                                       VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT, nullptr};
  if (next.BeginCommandBuffer(f->copy, &begin) < 0) return false;
  std::uint64_t got = 0;
  while (got < kStagingBytes) {
    const std::uint64_t from = offset + got;
    const Buffer* best = nullptr;
    for (const auto& b : buffers_)
      if (b->offset <= from && from < b->offset + b->size &&
          (best == nullptr || b->offset + b->size > best->offset + best->size))
        best = b.get();
    if (best == nullptr) break;
    const std::uint64_t n = std::min(kStagingBytes - got, best->offset + best->size - from);
    const VkBufferCopy copy{from - best->offset, got, n};
    next.CmdCopyBuffer(f->copy, best->handle, s.staging, 1, &copy);
    got += n;
  }
  const VkMemoryBarrier after{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, VK_ACCESS_TRANSFER_WRITE_BIT,
                              VK_ACCESS_HOST_READ_BIT};
  next.CmdPipelineBarrier(f->copy, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &after,
                          0, nullptr, 0, nullptr);
  if (next.EndCommandBuffer(f->copy) < 0 || got < size) return false;
  VkFence fence = make_fence(d_);
  if (fence == VK_NULL_HANDLE) return false;
  VkSubmitInfo submit{VK_STRUCTURE_TYPE_SUBMIT_INFO};
  submit.commandBufferCount = 1;
  submit.pCommandBuffers = &f->copy;
  if (next.QueueSubmit(queue_.handle, 1, &submit, fence) < 0 ||
      wait_fence(d_, fence, kCopyLimitNs) != VK_SUCCESS) {
    d_.abandoned.push_back(fence);
    return false;
  }
  next.DestroyFence(d_.handle, fence, nullptr);
  if (!s.coherent) {
    const VkMappedMemoryRange range{VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE, nullptr, s.memory, 0,
                                    VK_WHOLE_SIZE};
    next.InvalidateMappedMemoryRanges(d_.handle, 1, &range);
  }
  window_ = offset;
  window_size_ = got;
  return true;
}

}  // namespace klab::shim
