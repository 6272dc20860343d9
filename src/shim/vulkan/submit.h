// SPDX-License-Identifier: Apache-2.0
// Submissions: what the program asked for, in one form for both calls, and with segments in place of command
// buffers.
#pragma once
#include "shim/vulkan/record.h"

namespace klab::shim {

struct Piece {
  VkCommandBuffer commands = VK_NULL_HANDLE;
  std::uint32_t mask = 0;
  const Mark* mark = nullptr;  // a wanted execution; alone in `commands` when mark->segment >= 0
  std::uint64_t nth = 0, sequence = 0;
};

struct SemaphoreUse {
  VkSemaphore semaphore = VK_NULL_HANDLE;
  std::uint64_t value = 0;
  VkPipelineStageFlags2 stages = 0;
  std::uint32_t device = 0;
};

struct Batch {
  std::vector<SemaphoreUse> waits, signals;
  std::vector<Piece> pieces;
  bool values = false;  // came with VkTimelineSemaphoreSubmitInfo
  VkSubmitFlags flags = 0;
  std::string refusal;  // why this batch cannot be taken apart, or empty
};

/// vkQueueSubmit, vkQueueSubmit2 or its alias: parts go through the call that the program used.
enum class SubmitCall { submit, submit2, submit2_khr };

/// Submits `batches` with `fence`. The queue's lock is held.
VkResult submit_batches(Device& d, Queue& queue, SubmitCall call, const std::vector<Batch>& batches,
                        VkFence fence);

}  // namespace klab::shim
