// SPDX-License-Identifier: Apache-2.0
// A secondary command buffer that one primary executes twice; its dispatch starts at a base workgroup
// (vkCmdDispatchBase), so the first quarter of the buffer stays as it was.
#include "common.h"

using namespace example;

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 16, 1);
  const std::uint32_t n = groups(o.size, 128) * 128, all = n / 32, base = all / 4;
  Gpu gpu;
  std::vector<std::uint32_t> expected(n);
  for (std::uint32_t i = 0; i < n; ++i) expected[i] = i ^ 0x5a5a5a5au;
  const Buffer v = gpu.buffer_of(expected);
  const Pipeline p = gpu.pipeline({.shader = "secondary",
                                   .bindings = storage(1),
                                   .push_bytes = 4,
                                   .flags = VK_PIPELINE_CREATE_DISPATCH_BASE_BIT});
  const VkDescriptorSet set = gpu.set(p, {v});

  VkCommandBuffer inner =
      gpu.begin(VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT, VK_COMMAND_BUFFER_LEVEL_SECONDARY);
  vkCmdBindPipeline(inner, VK_PIPELINE_BIND_POINT_COMPUTE, p.handle);
  vkCmdBindDescriptorSets(inner, VK_PIPELINE_BIND_POINT_COMPUTE, p.layout, 0, 1, &set, 0, nullptr);
  vkCmdPushConstants(inner, p.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, 4, &n);
  vkCmdDispatchBase(inner, base, 0, 0, all - base, 1, 1);
  barrier(inner);
  gpu.end(inner);
  for (std::uint32_t i = 0; i < o.iterations; ++i) {
    VkCommandBuffer c = gpu.begin();
    vkCmdExecuteCommands(c, 1, &inner);
    vkCmdExecuteCommands(c, 1, &inner);
    gpu.run(c);
  }

  std::uint64_t wrong = 0;
  const auto got = v.as<std::uint32_t>();
  for (std::uint32_t i = 0; i < n; ++i) {
    for (std::uint32_t k = 0; k < 2 * o.iterations && i >= base * 32; ++k)
      expected[i] = expected[i] * 5u + i / 32;
    wrong += got[i] != expected[i];
  }
  return finish(checksum(got), wrong, n);
}
