// SPDX-License-Identifier: Apache-2.0
// The replay of `inplace` as one would write it by hand for this one kernel: before each launch the written
// half of the buffer is copied from a pristine one, and the launch stands between two timestamps. As many
// iterations go into one submit as fit into some 20 ms, at most 64. Prints nanoseconds of an iteration and
// the median of the kernel's.
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
  constexpr std::uint32_t kMost = 64;
  VkQueryPool queries;
  const VkQueryPoolCreateInfo info{.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                   .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                   .queryCount = 2 * kMost};
  VK(vkCreateQueryPool(gpu.device(), &info, nullptr, &queries));
  const auto record = [&](std::uint32_t count) {
    VkCommandBuffer c = gpu.begin(0);
    vkCmdResetQueryPool(c, queries, 0, 2 * count);
    for (std::uint32_t i = 0; i < count; ++i) {
      const VkBufferCopy written{0, 0, o.size * VkDeviceSize{4}};
      vkCmdCopyBuffer(c, pristine.handle, x.handle, 1, &written);
      barrier(c);
      vkCmdWriteTimestamp(c, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, queries, 2 * i);
      dispatch(c, p, set, push, groups(o.size, 128));
      vkCmdWriteTimestamp(c, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, queries, 2 * i + 1);
      barrier(c);
    }
    gpu.end(c);
    return c;
  };
  const auto seconds = [&](VkCommandBuffer c) {
    const auto start = std::chrono::steady_clock::now();
    gpu.submit(c);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const VkCommandBuffer one = record(1);
  gpu.submit(one);  // warm-up: the driver compiles at the first launch
  const auto batch = static_cast<std::uint32_t>(std::clamp(0.02 / seconds(one), 1.0, double{kMost}));
  const VkCommandBuffer c = record(batch);
  gpu.submit(c);

  std::vector<double> samples;
  const auto start = std::chrono::steady_clock::now();
  while (samples.size() < o.iterations) {
    gpu.submit(c);
    std::uint64_t t[2 * kMost];
    VK(vkGetQueryPoolResults(gpu.device(), queries, 0, 2 * batch, sizeof t, t, 8, VK_QUERY_RESULT_64_BIT));
    for (std::uint32_t i = 0; i < batch; ++i)
      samples.push_back(static_cast<double>(t[2 * i + 1] - t[2 * i]) * gpu.limits().timestampPeriod);
  }
  const auto ns = std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
  const double each = static_cast<double>(ns) / static_cast<double>(samples.size());
  std::nth_element(samples.begin(), samples.begin() + samples.size() / 2, samples.end());
  std::printf("%.0f %.0f %u\n", each, samples[samples.size() / 2], batch);
  vkDestroyQueryPool(gpu.device(), queries, nullptr);
}
