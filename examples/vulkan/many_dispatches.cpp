// SPDX-License-Identifier: Apache-2.0
// 200 small dispatches of three named kernels in one command buffer, submitted --iterations times (3): which
// execution is the n-th is not known while recording. --time says on stderr how long the submissions took,
// --timestamps writes two around each dispatch: what timing each costs on this driver, whoever does it.
#include <chrono>
#include <cstdio>

#include "common.h"

using namespace example;

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 4096, 3, {"--time", "--timestamps"});
  const std::uint32_t n = o.size, count = 200;
  Gpu gpu;
  std::vector<std::uint32_t> a(n), b(n);
  for (std::uint32_t i = 0; i < n; ++i) a[i] = i * 2654435761u, b[i] = ~i;
  const Buffer ba = gpu.buffer_of(a, 0, "a"), bb = gpu.buffer_of(b, 0, "b");
  const char* names[3] = {"scale", "mix", "fold"};
  Pipeline kernels[3];
  for (int k = 0; k < 3; ++k)
    kernels[k] = gpu.pipeline({.shader = std::string("many_dispatches_") + names[k],
                               .bindings = storage(2),
                               .push_bytes = 8,
                               .name = names[k]});
  const VkDescriptorSet set = gpu.set(kernels[0], {ba, bb});
  struct Push {
    std::uint32_t n, step;
  };

  VkQueryPool queries = VK_NULL_HANDLE;
  const VkQueryPoolCreateInfo info{.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                   .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                   .queryCount = 2 * count};
  if (o.has("--timestamps")) VK(vkCreateQueryPool(gpu.device(), &info, nullptr, &queries));

  VkCommandBuffer c = gpu.begin(0);
  if (queries) vkCmdResetQueryPool(c, queries, 0, 2 * count);
  for (std::uint32_t step = 0; step < count; ++step) {
    if (queries) vkCmdWriteTimestamp(c, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, queries, 2 * step);
    dispatch(c, kernels[step % 3], set, Push{n, step}, groups(n, 64));
    if (queries) vkCmdWriteTimestamp(c, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, queries, 2 * step + 1);
    barrier(c);
  }
  gpu.end(c);
  if (o.has("--time"))
    gpu.submit(c);  // the first one compiles; the CPU's copy below then lags, so nothing is checked
  const auto start = std::chrono::steady_clock::now();
  for (std::uint32_t i = 0; i < o.iterations; ++i) gpu.submit(c);
  const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - start;
  if (o.has("--time"))
    std::fprintf(stderr, "submissions took %lld ns\n", static_cast<long long>(took.count()));

  vkDestroyQueryPool(gpu.device(), queries, nullptr);

  // The CPU follows the first 3 submissions; a longer run (a benchmark) checks those only by finishing.
  const std::uint32_t followed = o.iterations <= 3 && !o.has("--time") ? o.iterations : 0;
  for (std::uint32_t r = 0; r < followed; ++r)
    for (std::uint32_t step = 0; step < count; ++step)
      for (std::uint32_t i = 0; i < n; ++i) {
        if (step % 3 == 0) a[i] = a[i] * 3u + step;
        if (step % 3 == 1) b[i] ^= a[(i + step) % n] >> 3;
        if (step % 3 == 2) a[i] += b[n - 1 - i];
      }
  std::uint64_t wrong = 0;
  const auto ga = ba.as<std::uint32_t>(), gb = bb.as<std::uint32_t>();
  for (std::uint32_t i = 0; followed && i < n; ++i) wrong += ga[i] != a[i] || gb[i] != b[i];
  return finish(checksum(ga) ^ checksum(gb), wrong, n);
}
