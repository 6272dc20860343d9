// SPDX-License-Identifier: Apache-2.0
// The grid of the second kernel is written by the first and never seen by the host (vkCmdDispatchIndirect).
#include "common.h"

using namespace example;

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 14, 2);
  Gpu gpu;
  std::vector<float> expected = noise_vector(o.size, 6);
  const Buffer values = gpu.buffer_of(expected);
  const Buffer plan = gpu.buffer(16 + 4 * VkDeviceSize{o.size}, VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT);
  const Pipeline first = gpu.pipeline({.shader = "indirect_plan", .bindings = storage(2), .push_bytes = 4});
  const Pipeline second = gpu.pipeline({.shader = "indirect_fix", .bindings = storage(2), .push_bytes = 4});
  const VkDescriptorSet set = gpu.set(first, {values, plan});

  for (std::uint32_t i = 0; i < o.iterations; ++i) {  // from the second on nothing is negative: a grid of 0
    VkCommandBuffer c = gpu.begin();
    dispatch(c, first, set, o.size, 1);
    barrier(c);
    vkCmdBindPipeline(c, VK_PIPELINE_BIND_POINT_COMPUTE, second.handle);
    vkCmdDispatchIndirect(c, plan.handle, 0);
    barrier(c);
    gpu.run(c);
  }
  for (float& f : expected) f = f < 0 ? f * f : f;

  std::uint64_t wrong = 0;
  const auto got = values.as<float>();
  for (std::uint32_t i = 0; i < o.size; ++i) wrong += !near(got[i], expected[i]);
  return finish(checksum(got), wrong, o.size);
}
