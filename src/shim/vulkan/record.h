// SPDX-License-Identifier: Apache-2.0
// A command buffer as the program records it, and the real ones ("segments") that stand for it.
// Not here: what happens to them at submission (submit.cpp).
#pragma once
#include <map>
#include <string>
#include <vector>

#include "shim/vulkan/state.h"

namespace klab::shim {

struct Recording;  // trace.h

enum class Effect {
  none,
  unknown,
  state,
  label,
  descriptor_buffer,
  device_mask,
  open_pass,
  close_pass,
  open_query,
  close_query,
  open_conditional,
  close_conditional,
  open_feedback,
  close_feedback,
  open_video,
  close_video
};

/// Everything that a dispatch was recorded with. Descriptor sets are read when it is submitted.
struct DispatchState {
  Ref<Pipeline> pipeline;
  struct Set {
    Ref<SetContents> contents;
    std::vector<std::uint32_t> dynamic_offsets;
    bool pushed = false;
  };
  std::map<std::uint32_t, Set> sets;
  std::vector<std::uint8_t> push_constants;
  std::uint32_t call = KLAB_CALL_DISPATCH;
  std::uint32_t grid[3] = {0, 0, 0}, base[3] = {0, 0, 0};
  Ref<Buffer> indirect;
  std::uint64_t indirect_offset = 0;
};

/// A recorded dispatch that may be the wanted one.
struct Mark {
  Kernel* kernel = nullptr;
  Ref<const DispatchState> state;
  std::uint64_t before = 0;  // dispatches of any kernel in this command buffer before it
  int segment = -1;          // the segment that holds it alone; -1: it could not be split off
  std::string why;           // then: what stands in the way
};

struct CommandBuffer {
  VkCommandBuffer handle = VK_NULL_HANDLE;
  Device* device = nullptr;
  VkCommandPool pool = VK_NULL_HANDLE;
  std::uint32_t family = 0;
  VkCommandBufferLevel level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  Ref<Pipeline> pipeline;  // bound for compute

  // Trace mode.
  Ref<Recording> recording;

  // Capture mode.
  std::vector<VkCommandBuffer> segments;  // [0] is `handle`
  std::vector<VkCommandBuffer> spare;
  VkCommandBuffer current = VK_NULL_HANDLE;
  bool split_pending = false;  // the next command starts a new segment
  VkResult failure = VK_SUCCESS;
  VkCommandBufferUsageFlags usage = 0;
  VkCommandBufferInheritanceInfo inheritance{};
  bool inherits_more = false;  // than a segment of ours could be begun with
  int passes = 0, queries = 0, conditionals = 0, feedbacks = 0, videos = 0;
  bool newer_commands = false, live_state = false, descriptor_buffers = false, device_mask = false;
  std::vector<Mark> marks;
  std::uint64_t dispatches = 0;

  // Compute state, to be put into a new segment.
  struct Bound {
    VkPipelineLayout layout = VK_NULL_HANDLE;
    VkDescriptorSet set = VK_NULL_HANDLE;  // null: push descriptors
    Ref<SetContents> contents;
    std::vector<std::uint32_t> dynamic_offsets;
    std::uint64_t order = 0;
  };
  struct Push {
    VkPipelineLayout layout = VK_NULL_HANDLE;
    VkShaderStageFlags stages = 0;
    std::uint32_t offset = 0;
    std::vector<std::uint8_t> bytes;
  };
  std::map<std::uint32_t, Bound> bound;
  std::vector<Push> pushes;
  std::uint64_t order = 0;

  /// Where the next command goes; starts a new segment when one is due.
  VkCommandBuffer target() {
    if (split_pending) start_segment();
    return current;
  }
  /// False when it could not be begun: recording then goes on in the current one.
  bool start_segment();
  void apply(Effect effect);
  /// Empty, or what forbids a split here.
  std::string split_refusal() const;
  void forget_recording();
  void emit_state();
};

}  // namespace klab::shim
