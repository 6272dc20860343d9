// SPDX-License-Identifier: Apache-2.0
// Records steps, submits them, waits with a limit, and reads the timestamps.
#include "gpu/vulkan/device.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "base/units.h"

namespace klab::gpu::vulkan {
namespace {

// Steps in one command buffer: drivers' watchdogs count per submission, so a long batch becomes several.
constexpr std::size_t kStepsPerCommandBuffer = 1024;
constexpr std::uint32_t kFirstQueries = 256;

constexpr VkMemoryBarrier kFullBarrier{.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                       .srcAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT,
                                       .dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT};

}  // namespace

Status VulkanDevice::check_steps(std::span<const Step> steps, std::size_t& timed) {
  timed = 0;
  for (const Step& s : steps) {
    switch (s.kind) {
      case Step::Kind::launch:
        if (!launches_.contains(s.launch)) return fail(ErrorCode::internal, fmt::format("no launch {}", s.launch));
        if (launches_.at(s.launch).compile_only)
          return fail(ErrorCode::internal, fmt::format("launch {} has a binding without memory: it cannot run", s.launch));
        timed += s.timed;
        break;
      case Step::Kind::images_in:
      case Step::Kind::images_out:
        break;  // no images here
      case Step::Kind::copy: {
        KLAB_TRY_VOID(buffer(s.to, s.to_offset, s.size));
        KLAB_TRY_VOID(buffer(s.from, s.from_offset, s.size));
        break;
      }
      case Step::Kind::fill: {
        KLAB_TRY(Buffer* const b, buffer(s.to, s.to_offset, s.size));
        if ((b->base + s.to_offset) % 4 != 0 || s.size % 4 != 0)
          return fail(ErrorCode::internal, fmt::format("a fill of {} bytes at {}: not multiples of 4", s.size, s.to_offset));
        break;
      }
    }
  }
  return {};
}

void VulkanDevice::record(VkCommandBuffer commands, std::span<const Step> steps, std::uint32_t& query, LaunchId& bound) {
  for (const Step& s : steps) {
    if (s.kind == Step::Kind::images_in || s.kind == Step::Kind::images_out) continue;
    // Before each step: everything earlier, in this command buffer and those before it, has ended and is visible.
    call_.CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0, 1,
                             &kFullBarrier, 0, nullptr, 0, nullptr);
    if (s.kind == Step::Kind::copy) {
      if (s.size == 0) continue;
      const Buffer &to = buffers_.at(s.to), &from = buffers_.at(s.from);
      const VkBufferCopy region{from.base + s.from_offset, to.base + s.to_offset, s.size};
      call_.CmdCopyBuffer(commands, from.handle, to.handle, 1, &region);
      continue;
    }
    if (s.kind == Step::Kind::fill) {
      if (s.size == 0) continue;
      const Buffer& to = buffers_.at(s.to);
      call_.CmdFillBuffer(commands, to.handle, to.base + s.to_offset, s.size, s.value);
      continue;
    }
    const Launch& launch = launches_.at(s.launch);
    if (bound != s.launch) {
      bound = s.launch;
      call_.CmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, launch.pipeline);
      if (!launch.sets.empty())
        call_.CmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, launch.layout, 0,
                                    static_cast<std::uint32_t>(launch.sets.size()), launch.sets.data(),
                                    static_cast<std::uint32_t>(launch.dynamic_offsets.size()),
                                    launch.dynamic_offsets.data());
      for (const auto& range : launch.push_ranges)
        call_.CmdPushConstants(commands, launch.layout, VK_SHADER_STAGE_COMPUTE_BIT, range.offset, range.size,
                               launch.push_constants.data() + range.offset);
    }
    const bool timestamps = s.timed && queries_ != VK_NULL_HANDLE && abilities_.timestamps;
    if (timestamps) call_.CmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, queries_, query++);
    if (launch.base == bundle::Dim3{0, 0, 0})
      call_.CmdDispatch(commands, launch.grid[0], launch.grid[1], launch.grid[2]);
    else
      call_.CmdDispatchBase(commands, launch.base[0], launch.base[1], launch.base[2], launch.grid[0], launch.grid[1],
                            launch.grid[2]);
    if (timestamps) call_.CmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, queries_, query++);
  }
}

Status VulkanDevice::wait(VkFence fence, std::uint64_t timeout_ns) {
  const VkResult waited = call_.WaitForFences(device_, 1, &fence, VK_TRUE, timeout_ns);
  if (waited == VK_SUCCESS) return {};
  lost_ = true;
  if (waited == VK_TIMEOUT)
    return fail(ErrorCode::timeout,
                fmt::format("the device did not finish within {}", format_ns(static_cast<double>(timeout_ns))),
                "the kernel may not end; if it is only slow, allow it more time");
  return vk_fail(waited, "vkWaitForFences", ErrorCode::device_fault);
}

Status VulkanDevice::submit_and_wait(std::span<const Step> steps, std::uint64_t timeout_ns, std::uint32_t queries,
                                     BatchResult& result) {
  const auto entered = std::chrono::steady_clock::now();
  const std::size_t count = std::max<std::size_t>(1, (steps.size() + kStepsPerCommandBuffer - 1) / kStepsPerCommandBuffer);
  KLAB_VK_TRY(call_.ResetCommandPool(device_, pool_, 0), "vkResetCommandPool");
  if (commands_.size() < count) {
    const std::size_t had = commands_.size();
    commands_.resize(count);
    const VkCommandBufferAllocateInfo info{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                           .commandPool = pool_,
                                           .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                           .commandBufferCount = static_cast<std::uint32_t>(count - had)};
    if (const VkResult made = call_.AllocateCommandBuffers(device_, &info, commands_.data() + had); made != VK_SUCCESS) {
      commands_.resize(had);
      return vk_fail(made, "vkAllocateCommandBuffers");
    }
  }
  std::uint32_t query = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t begin = i * kStepsPerCommandBuffer;
    const VkCommandBufferBeginInfo info{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                        .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    KLAB_VK_TRY(call_.BeginCommandBuffer(commands_[i], &info), "vkBeginCommandBuffer");
    if (i == 0 && queries != 0) call_.CmdResetQueryPool(commands_[i], queries_, 0, queries);
    LaunchId bound = 0;
    record(commands_[i], steps.subspan(begin, std::min(kStepsPerCommandBuffer, steps.size() - begin)), query, bound);
    if (i + 1 == count) {
      // The host reads mapped memory after the fence.
      constexpr VkMemoryBarrier to_host{.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                        .srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT,
                                        .dstAccessMask = VK_ACCESS_HOST_READ_BIT | VK_ACCESS_HOST_WRITE_BIT};
      call_.CmdPipelineBarrier(commands_[i], VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &to_host,
                               0, nullptr, 0, nullptr);
    }
    KLAB_VK_TRY(call_.EndCommandBuffer(commands_[i]), "vkEndCommandBuffer");
  }
  if (fence_ == VK_NULL_HANDLE) {  // not at open: an offline driver (RADV's null device) has none, yet it compiles
    const VkFenceCreateInfo info{.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    KLAB_VK_TRY(call_.CreateFence(device_, &info, nullptr, &fence_), "vkCreateFence");
  }
  KLAB_VK_TRY(call_.ResetFences(device_, 1, &fence_), "vkResetFences");
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < count; ++i) {
    const VkSubmitInfo submit{
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &commands_[i]};
    const VkResult submitted = call_.QueueSubmit(queue_, 1, &submit, i + 1 == count ? fence_ : VK_NULL_HANDLE);
    if (submitted != VK_SUCCESS) {
      lost_ = true;  // what was submitted before may still run
      return vk_fail(submitted, "vkQueueSubmit", ErrorCode::device_fault);
    }
  }
  const auto nanoseconds = [](auto from, auto to) { return std::chrono::duration<double, std::nano>(to - from).count(); };
  result.submit_ns += nanoseconds(entered, std::chrono::steady_clock::now());
  KLAB_TRY_VOID(wait(fence_, timeout_ns));
  result.wall_ns += nanoseconds(start, std::chrono::steady_clock::now());
  return {};
}

Result<BatchResult> VulkanDevice::run_with_timestamps(std::span<const Step> steps, std::size_t timed,
                                                      std::uint64_t timeout_ns) {
  const auto queries = static_cast<std::uint32_t>(timed * 2);
  if (queries > query_count_) {
    if (queries_ != VK_NULL_HANDLE) call_.DestroyQueryPool(device_, queries_, nullptr);
    queries_ = VK_NULL_HANDLE;
    query_count_ = std::max(queries, kFirstQueries);
    const VkQueryPoolCreateInfo info{.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                     .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                     .queryCount = query_count_};
    if (const VkResult made = call_.CreateQueryPool(device_, &info, nullptr, &queries_); made != VK_SUCCESS) {
      query_count_ = 0;
      return vk_fail(made, "vkCreateQueryPool");
    }
  }
  BatchResult result;
  KLAB_TRY_VOID(submit_and_wait(steps, timeout_ns, queries, result));
  if (queries == 0) return result;
  std::vector<std::uint64_t> ticks(queries);
  const VkResult read = call_.GetQueryPoolResults(device_, queries_, 0, queries, ticks.size() * sizeof(ticks[0]),
                                                  ticks.data(), sizeof(ticks[0]), VK_QUERY_RESULT_64_BIT);
  if (read == VK_ERROR_DEVICE_LOST) lost_ = true;
  if (read != VK_SUCCESS) return vk_fail(read, "vkGetQueryPoolResults", ErrorCode::launch_failed);
  const std::uint64_t mask = timestamp_bits_ >= 64 ? ~0ull : (1ull << timestamp_bits_) - 1;
  result.launch_ns.reserve(timed);
  for (std::size_t i = 0; i < timed; ++i)  // the counter may wrap between the two
    result.launch_ns.push_back(static_cast<double>(((ticks[2 * i + 1] & mask) - (ticks[2 * i] & mask)) & mask) *
                               static_cast<double>(limits_.timestampPeriod));
  return result;
}

// Without timestamps a timed launch is one submission, and its time is the host's: abilities().timestamps is false.
Result<BatchResult> VulkanDevice::run_with_host_clock(std::span<const Step> steps, std::uint64_t timeout_ns) {
  BatchResult result;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= steps.size(); ++i) {
    const bool timed = i < steps.size() && steps[i].kind == Step::Kind::launch && steps[i].timed;
    if (i < steps.size() && !timed) continue;
    if (i > begin) KLAB_TRY_VOID(submit_and_wait(steps.subspan(begin, i - begin), timeout_ns, 0, result));
    if (timed) {
      const double before = result.wall_ns;
      KLAB_TRY_VOID(submit_and_wait(steps.subspan(i, 1), timeout_ns, 0, result));
      result.launch_ns.push_back(result.wall_ns - before);
    }
    begin = i + 1;
  }
  return result;
}

Result<BatchResult> VulkanDevice::run(std::span<const Step> steps, std::uint64_t timeout_ns) {
  KLAB_TRY_VOID(check_alive());
  std::size_t timed = 0;
  KLAB_TRY_VOID(check_steps(steps, timed));
  auto result = timed != 0 && !abilities_.timestamps ? run_with_host_clock(steps, timeout_ns)
                                                     : run_with_timestamps(steps, timed, timeout_ns);
  if (!result && result.error().code == ErrorCode::device_fault) lost_ = true;
  return result;
}

}  // namespace klab::gpu::vulkan
