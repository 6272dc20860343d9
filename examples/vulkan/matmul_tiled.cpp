// SPDX-License-Identifier: Apache-2.0
// Matrix product twice, tiled and naive: two named pipelines with the same bindings, each dispatch in a
// debug label. --size is the side.
#include "common.h"

using namespace example;

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 160, 1);
  const std::uint32_t n = groups(o.size, 16) * 16;
  Gpu gpu;
  const std::vector<float> a = noise_vector(std::size_t{n} * n, 4), b = noise_vector(std::size_t{n} * n, 5);
  const Buffer ba = gpu.buffer_of(a, 0, "a"), bb = gpu.buffer_of(b, 0, "b");
  const Buffer tiled = gpu.buffer(ba.size, 0, "c tiled"), naive = gpu.buffer(ba.size, 0, "c naive");
  const Pipeline fast = gpu.pipeline(
      {.shader = "matmul_tiled", .bindings = storage(3), .push_bytes = 4, .name = "matmul_tiled"});
  const Pipeline slow = gpu.pipeline(
      {.shader = "matmul_tiled_naive", .bindings = storage(3), .push_bytes = 4, .name = "matmul_naive"});
  const VkDescriptorSet fast_set = gpu.set(fast, {ba, bb, tiled}), slow_set = gpu.set(slow, {ba, bb, naive});

  for (std::uint32_t i = 0; i < o.iterations; ++i) {
    VkCommandBuffer c = gpu.begin();
    gpu.label(c, "naive");
    dispatch(c, slow, slow_set, n, n / 16, n / 16);
    gpu.label(c, nullptr);
    gpu.label(c, "tiled");
    dispatch(c, fast, fast_set, n, n / 16, n / 16);
    gpu.label(c, nullptr);
    barrier(c);
    gpu.run(c);
  }

  // Every element against the other kernel, and a diagonal band against the CPU.
  std::uint64_t wrong = 0;
  const auto t = tiled.as<float>(), v = naive.as<float>();
  for (std::size_t i = 0; i < t.size(); ++i) wrong += !near(t[i], v[i], 16.0f);
  for (std::uint32_t row = 0; row < n; ++row) {
    const std::uint32_t col = (row * 7 + 3) % n;
    double sum = 0;
    for (std::uint32_t k = 0; k < n; ++k) sum += double(a[row * n + k]) * b[k * n + col];
    wrong += !near(t[row * n + col], static_cast<float>(sum), 16.0f);
  }
  return finish(checksum(t), wrong, t.size() + n);
}
