// SPDX-License-Identifier: Apache-2.0
// Descriptors the long way round: an array of buffers at offsets of one large buffer, dynamic offsets, a
// uniform buffer, and a set that got its contents by vkUpdateDescriptorSets copies from another.
#include "common.h"

using namespace example;

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 16, 2);
  Gpu gpu;
  const std::uint32_t n = groups(o.size, 64) * 64;  // slices stay aligned
  const VkDeviceSize slice = n * 4;
  const std::vector<float> v = noise_vector(3 * std::size_t{n}, 9);
  const Buffer parts = gpu.buffer_of(v);
  const Buffer out = gpu.buffer(2 * slice);  // two slices, chosen by dynamic offset
  const Buffer weights =
      gpu.buffer_of(std::vector<float>{0.5f, -0.25f, 2.0f, 0}, VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT);
  const Buffer shifts =
      gpu.buffer(512, VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT);  // 256: the largest alignment allowed
  shifts.as<std::uint32_t>()[0] = 1, shifts.as<std::uint32_t>()[64] = 5;

  const Pipeline p = gpu.pipeline({.shader = "descriptor_array",
                                   .bindings = {{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 3},
                                                {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER_DYNAMIC},
                                                {VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER},
                                                {VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER_DYNAMIC}},
                                   .push_bytes = 4});
  const VkDescriptorSet model = gpu.empty_set(p), set = gpu.empty_set(p);
  for (std::uint32_t e = 0; e < 3; ++e)
    gpu.write(model, 0, e, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, parts, e * slice, slice);
  gpu.write(model, 1, 0, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER_DYNAMIC, out, 0, slice);
  gpu.write(model, 2, 0, VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, weights);
  gpu.write(model, 3, 0, VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER_DYNAMIC, shifts, 0, 16);
  std::vector<VkCopyDescriptorSet> copies;
  for (std::uint32_t b = 0; b < 4; ++b)
    copies.push_back({.sType = VK_STRUCTURE_TYPE_COPY_DESCRIPTOR_SET,
                      .srcSet = model,
                      .srcBinding = b,
                      .dstSet = set,
                      .dstBinding = b,
                      .descriptorCount = b == 0 ? 3u : 1u});
  vkUpdateDescriptorSets(gpu.device(), 0, nullptr, static_cast<std::uint32_t>(copies.size()), copies.data());

  for (std::uint32_t i = 0; i < o.iterations; ++i) {  // slice 0 on even turns, slice 1 on odd ones
    VkCommandBuffer c = gpu.begin();
    const std::uint32_t offsets[2] = {static_cast<std::uint32_t>(i % 2 * slice), i % 2 * 256};
    vkCmdBindPipeline(c, VK_PIPELINE_BIND_POINT_COMPUTE, p.handle);
    vkCmdBindDescriptorSets(c, VK_PIPELINE_BIND_POINT_COMPUTE, p.layout, 0, 1, &set, 2, offsets);
    vkCmdPushConstants(c, p.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, 4, &n);
    vkCmdDispatch(c, n / 64, 1, 1);
    barrier(c);
    gpu.run(c);
  }

  std::uint64_t wrong = 0;
  const auto got = out.as<float>();
  for (std::uint32_t s = 0; s < 2; ++s)
    for (std::uint32_t i = 0; i < n; ++i) {
      const std::uint32_t k = (i + (s ? 5 : 1)) % n, turns = (o.iterations + 1 - s) / 2;
      const float once = 0.5f * v[k] - 0.25f * v[n + k] + 2.0f * v[2 * std::size_t{n} + k];
      wrong += !near(got[std::size_t{s} * n + i], once * static_cast<float>(turns),
                     4.0f * static_cast<float>(turns));
    }
  return finish(checksum(got), wrong, 2ull * n);
}
