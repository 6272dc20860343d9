// SPDX-License-Identifier: Apache-2.0
// x = x*a + b, several times: a kernel that reads what it writes, so a replay that does not restore drifts
// away. The buffer is larger than what the kernel touches: its second half is never written.
#include "common.h"

using namespace example;

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 20, 5);
  Gpu gpu;
  std::vector<float> expected = noise_vector(2 * std::size_t{o.size}, 3);
  const Buffer x = gpu.buffer_of(expected);
  struct Push {
    std::uint32_t n;
    float a, b;
  } push{o.size, 0.75f, 0.125f};
  const Pipeline p = gpu.pipeline({.shader = "inplace", .bindings = storage(1), .push_bytes = sizeof(Push)});
  const VkDescriptorSet set = gpu.set(p, {x});

  VkCommandBuffer c = gpu.begin();
  for (std::uint32_t i = 0; i < o.iterations; ++i) {
    dispatch(c, p, set, push, groups(o.size, 128));
    barrier(c);
    for (std::uint32_t k = 0; k < o.size; ++k) expected[k] = expected[k] * push.a + push.b;
  }
  gpu.run(c);

  std::uint64_t wrong = 0;
  const auto got = x.as<float>();
  for (std::size_t k = 0; k < expected.size(); ++k) wrong += !near(got[k], expected[k]);
  return finish(checksum(got), wrong, expected.size());
}
