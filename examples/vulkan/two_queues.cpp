// SPDX-License-Identifier: Apache-2.0
// Two threads take turns on one buffer through a timeline semaphore: each submit waits for the other's value.
// With two queues of one family each thread has its own; else they share one queue under a mutex.
#include <condition_variable>
#include <mutex>
#include <thread>

#include "common.h"

using namespace example;

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 16, 8);
  Gpu gpu({.timeline = true});
  std::vector<std::uint32_t> expected(o.size);
  for (std::uint32_t i = 0; i < o.size; ++i) expected[i] = i * 2654435761u;
  const Buffer v = gpu.buffer_of(expected);
  struct Push {
    std::uint32_t n, add;
  };
  const Pipeline p =
      gpu.pipeline({.shader = "two_queues", .bindings = storage(1), .push_bytes = sizeof(Push)});
  const VkDescriptorSet set = gpu.set(p, {v});

  const VkSemaphoreTypeCreateInfo type{.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                       .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
  const VkSemaphoreCreateInfo info{.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
  VkSemaphore timeline;
  VK(vkCreateSemaphore(gpu.device(), &info, nullptr, &timeline));

  std::vector<VkCommandBuffer> steps;  // recorded here: a command pool belongs to one thread at a time
  for (std::uint32_t step = 0; step < 2 * o.iterations; ++step) {
    VkCommandBuffer c = gpu.begin();
    barrier(c);
    dispatch(c, p, set, Push{o.size, step}, groups(o.size, 64));
    barrier(c);
    gpu.end(c);
    steps.push_back(c);
    for (std::uint32_t& x : expected) x = (x << 1 | x >> 31) + step;
  }

  std::mutex mutex;
  std::condition_variable turn;
  std::uint32_t submitted = 0;
  const bool own_queues = gpu.queues() > 1;
  const auto work = [&](std::uint32_t who) {
    for (std::uint32_t step = who; step < steps.size(); step += 2) {
      std::unique_lock lock(mutex);
      // A shared queue runs in order, so there the signal must be submitted before its wait.
      if (!own_queues) turn.wait(lock, [&] { return submitted == step; });
      const std::uint64_t wait_for = step, signal = step + 1;
      const VkTimelineSemaphoreSubmitInfo values{.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
                                                 .waitSemaphoreValueCount = 1,
                                                 .pWaitSemaphoreValues = &wait_for,
                                                 .signalSemaphoreValueCount = 1,
                                                 .pSignalSemaphoreValues = &signal};
      const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
      const VkSubmitInfo submit{.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                                .pNext = &values,
                                .waitSemaphoreCount = 1,
                                .pWaitSemaphores = &timeline,
                                .pWaitDstStageMask = &stage,
                                .commandBufferCount = 1,
                                .pCommandBuffers = &steps[step],
                                .signalSemaphoreCount = 1,
                                .pSignalSemaphores = &timeline};
      if (own_queues) lock.unlock();
      VK(vkQueueSubmit(gpu.queue(own_queues ? who : 0), 1, &submit, VK_NULL_HANDLE));
      if (!own_queues) ++submitted, turn.notify_all();
    }
  };
  std::thread a(work, 0), b(work, 1);
  a.join();
  b.join();
  const std::uint64_t last = steps.size();
  const VkSemaphoreWaitInfo wait{.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                 .semaphoreCount = 1,
                                 .pSemaphores = &timeline,
                                 .pValues = &last};
  VK(vkWaitSemaphores(gpu.device(), &wait, UINT64_MAX));
  vkDeviceWaitIdle(gpu.device());
  vkDestroySemaphore(gpu.device(), timeline, nullptr);

  std::uint64_t wrong = 0;
  const auto got = v.as<std::uint32_t>();
  for (std::uint32_t i = 0; i < o.size; ++i) wrong += got[i] != expected[i];
  return finish(checksum(got), wrong, o.size);
}
