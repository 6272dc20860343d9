// SPDX-License-Identifier: Apache-2.0
// VK_KHR_push_descriptor: buffers are named in the command buffer, and change between dispatches.
#include "common.h"

using namespace example;

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 16, 1);
  Gpu gpu({.push_descriptor = true});
  std::vector<std::uint32_t> v(o.size);
  for (std::uint32_t i = 0; i < o.size; ++i) v[i] = i * 40503u;
  const Buffer a = gpu.buffer_of(v), b = gpu.buffer(a.size), c = gpu.buffer(a.size);
  const Pipeline p = gpu.pipeline({.shader = "push_descriptors",
                                   .bindings = storage(2),
                                   .push_bytes = 4,
                                   .layout_flags = VK_DESCRIPTOR_SET_LAYOUT_CREATE_PUSH_DESCRIPTOR_BIT_KHR});
  const auto push = gpu.function<PFN_vkCmdPushDescriptorSetKHR>("vkCmdPushDescriptorSetKHR");
  const auto bind = [&](VkCommandBuffer commands, std::uint32_t binding, const Buffer& buffer) {
    const VkDescriptorBufferInfo info{buffer.handle, 0, VK_WHOLE_SIZE};
    const VkWriteDescriptorSet write{.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                     .dstBinding = binding,
                                     .descriptorCount = 1,
                                     .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                     .pBufferInfo = &info};
    push(commands, VK_PIPELINE_BIND_POINT_COMPUTE, p.layout, 0, 1, &write);
  };

  for (std::uint32_t i = 0; i < o.iterations; ++i) {
    VkCommandBuffer commands = gpu.begin();
    vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, p.handle);
    vkCmdPushConstants(commands, p.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, 4, &o.size);
    bind(commands, 0, a);
    bind(commands, 1, b);
    vkCmdDispatch(commands, groups(o.size, 64), 1, 1);
    barrier(commands);
    bind(commands, 0, b);
    bind(commands, 1, c);
    vkCmdDispatch(commands, groups(o.size, 64), 1, 1);
    barrier(commands);
    gpu.run(commands);
  }

  std::uint64_t wrong = 0;
  const auto got = c.as<std::uint32_t>();
  const auto f = [](std::uint32_t x) { return x * 747796405u + (x >> 9); };
  for (std::uint32_t i = 0; i < o.size; ++i) wrong += got[i] != f(f(v[i]));
  return finish(checksum(got), wrong, o.size);
}
