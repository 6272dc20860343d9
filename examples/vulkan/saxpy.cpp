// SPDX-License-Identifier: Apache-2.0
// y = a*x + y: two storage buffers and push constants, the plainest dispatch there is.
#include "common.h"

using namespace example;

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 20, 1);
  Gpu gpu;
  const std::vector<float> x = noise_vector(o.size, 1);
  std::vector<float> expected = noise_vector(o.size, 2);
  const Buffer bx = gpu.buffer_of(x), by = gpu.buffer_of(expected);
  struct Push {
    std::uint32_t n;
    float a;
  } push{o.size, 0.5f};
  const Pipeline p = gpu.pipeline({.shader = "saxpy", .bindings = storage(2), .push_bytes = sizeof(Push)});
  const VkDescriptorSet set = gpu.set(p, {bx, by});

  for (std::uint32_t i = 0; i < o.iterations; ++i) {
    VkCommandBuffer c = gpu.begin();
    dispatch(c, p, set, push, groups(o.size, 256));
    barrier(c);
    gpu.run(c);
    for (std::uint32_t k = 0; k < o.size; ++k) expected[k] = push.a * x[k] + expected[k];
  }

  std::uint64_t wrong = 0;
  const auto y = by.as<float>();
  for (std::uint32_t k = 0; k < o.size; ++k) wrong += !near(y[k], expected[k]);
  return finish(checksum(y), wrong, o.size);
}
