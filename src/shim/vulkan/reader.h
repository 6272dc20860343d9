// SPDX-License-Identifier: Apache-2.0
// Reading device memory on the host, and the small command buffers of ours that this takes.
#pragma once
#include "shim/vulkan/submit.h"

namespace klab::shim {

/// Waits for the fence, polling up to `limit_ns`. VK_TIMEOUT, or the driver's error.
VkResult wait_fence(Device& d, VkFence fence, std::uint64_t limit_ns);
/// Null when the driver has none.
VkFence make_fence(Device& d);

/// Small command buffers of ours on the queue's family; null handles when they could not be made.
struct Helpers {
  VkCommandBuffer flush = VK_NULL_HANDLE;  // all writes become visible to the host and to copies
  VkCommandBuffer begin_time = VK_NULL_HANDLE, end_time = VK_NULL_HANDLE;
};
Helpers helpers(Device& d, std::uint32_t family);
/// GPU time between begin_time and end_time, or 0.
double helper_time(Device& d, std::uint32_t family);
/// Frees all that is ours. The device is idle.
void free_helpers(Device& d);

/// One allocation's bytes: through a mapping where the host reads it well, else through a staging copy.
/// The device's memory_lock is held, the queue is drained.
class Reader {
 public:
  Reader(Device& d, Queue& queue) : d_(d), queue_(queue) {}
  Reader(const Reader&) = delete;
  ~Reader();
  /// `buffers` cover what will be read.
  bool open(const Ref<Memory>& memory, const std::vector<Ref<Buffer>>& buffers);
  /// `size` bytes (at most a slot) at an offset in the memory; null when they cannot be read. Valid until the
  /// next call.
  const std::byte* at(std::uint64_t offset, std::size_t size);

 private:
  bool fill(std::uint64_t offset, std::uint64_t size);
  Device& d_;
  Queue& queue_;
  Ref<Memory> memory_;
  std::vector<Ref<Buffer>> buffers_;
  const std::byte* base_ = nullptr;  // of the memory, when it is read through a mapping
  bool unmap_ = false;
  std::uint64_t window_ = 0, window_size_ = 0;  // what the staging buffer holds
};

}  // namespace klab::shim
