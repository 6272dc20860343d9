// SPDX-License-Identifier: Apache-2.0
// The replay of `inplace` as one would write it by hand for this one kernel: before each launch the written
// half of the buffer is copied from a pristine one, the launch stands between two timestamps, one submit and
// fence for each. Prints nanoseconds of the whole loop and the median of the kernel's.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "common.h"

using namespace example;

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 20, 200);
  Gpu gpu;
  const std::vector<float> v = noise_vector(2 * std::size_t{o.size}, 3);
  const Buffer pristine = gpu.buffer_of(v, VK_BUFFER_USAGE_TRANSFER_SRC_BIT);
  const Buffer x = gpu.buffer_of(v, VK_BUFFER_USAGE_TRANSFER_DST_BIT);
  struct Push {
    std::uint32_t n;
    float a, b;
  } push{o.size, 0.75f, 0.125f};
  const Pipeline p = gpu.pipeline({.shader = "inplace", .bindings = storage(1), .push_bytes = sizeof(Push)});
  const VkDescriptorSet set = gpu.set(p, {x});
  VkQueryPool queries;
  const VkQueryPoolCreateInfo info{.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                   .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                   .queryCount = 2};
  VK(vkCreateQueryPool(gpu.device(), &info, nullptr, &queries));

  VkCommandBuffer c = gpu.begin(0);
  const VkBufferCopy written{0, 0, o.size * VkDeviceSize{4}};
  vkCmdCopyBuffer(c, pristine.handle, x.handle, 1, &written);
  vkCmdResetQueryPool(c, queries, 0, 2);
  barrier(c);
  vkCmdWriteTimestamp(c, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, queries, 0);
  dispatch(c, p, set, push, groups(o.size, 128));
  vkCmdWriteTimestamp(c, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, queries, 1);
  barrier(c);
  gpu.end(c);
  gpu.submit(c);  // warm-up: the driver compiles at the first launch

  std::vector<double> samples;
  const auto start = std::chrono::steady_clock::now();
  for (std::uint32_t i = 0; i < o.iterations; ++i) {
    gpu.submit(c);
    std::uint64_t t[2];
    VK(vkGetQueryPoolResults(gpu.device(), queries, 0, 2, sizeof t, t, 8, VK_QUERY_RESULT_64_BIT));
    samples.push_back(static_cast<double>(t[1] - t[0]) * gpu.limits().timestampPeriod);
  }
  const auto ns = std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
  std::nth_element(samples.begin(), samples.begin() + samples.size() / 2, samples.end());
  std::printf("%lld %.0f\n", static_cast<long long>(ns), samples[samples.size() / 2]);
  vkDestroyQueryPool(gpu.device(), queries, nullptr);
}
