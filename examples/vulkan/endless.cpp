// SPDX-License-Identifier: Apache-2.0
// A kernel that spins until a flag is set. The host sets it once the kernel has started, so the program ends;
// a replay from the captured state, where nobody sets it, never does. With --hold the host does not set it
// either. A million workgroups, because lavapipe ends any loop after 65535 turns: there it takes many
// minutes, not for ever.
#include <atomic>
#include <chrono>
#include <thread>

#include "common.h"

using namespace example;

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1, 1, {"--hold"});
  Gpu gpu;
  const Buffer b = gpu.buffer(12);
  const Pipeline p = gpu.pipeline({.shader = "endless", .bindings = storage(1)});
  const VkDescriptorSet set = gpu.set(p, {b});
  const auto words = b.as<std::uint32_t>();

  std::jthread host([&](std::stop_token stop) {
    while (!stop.stop_requested()) {
      if (std::atomic_ref(words[1]).load() != 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        if (!o.has("--hold")) std::atomic_ref(words[0]).store(1);
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  VkCommandBuffer c = gpu.begin();
  vkCmdBindPipeline(c, VK_PIPELINE_BIND_POINT_COMPUTE, p.handle);
  vkCmdBindDescriptorSets(c, VK_PIPELINE_BIND_POINT_COMPUTE, p.layout, 0, 1, &set, 0, nullptr);
  vkCmdDispatch(c, 65535, 16, 1);
  barrier(c);
  gpu.run(c);
  return finish(checksum(words.first(2)), words[0] != 1 || words[1] != 1, 1);
}
