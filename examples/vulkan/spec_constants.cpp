// SPDX-License-Identifier: Apache-2.0
// Three pipelines of one module that differ only by specialization: workgroup size, an integer, a float, a
// bool.
#include <bit>

#include "common.h"

using namespace example;

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 16, 1);
  Gpu gpu;
  const std::vector<float> v = noise_vector(o.size, 7);
  const Buffer in = gpu.buffer_of(v);
  struct Case {
    std::uint32_t width, factor;
    float bias;
    bool negate;
  };
  const Case cases[3] = {{32, 2, 0.25f, false}, {64, 3, -1.0f, true}, {128, 5, 0.5f, false}};
  std::uint64_t wrong = 0, sum = 0;
  for (const Case& k : cases) {
    const Buffer out = gpu.buffer(in.size);
    // The last case leaves constant 2 at the module's default.
    std::vector<std::pair<std::uint32_t, std::uint32_t>> constants{
        {0, k.width}, {1, k.factor}, {3, k.negate}};
    if (k.width != 128) constants.push_back({2, std::bit_cast<std::uint32_t>(k.bias)});
    const Pipeline p = gpu.pipeline(
        {.shader = "spec_constants", .bindings = storage(2), .push_bytes = 4, .spec_constants = constants});
    const VkDescriptorSet set = gpu.set(p, {in, out});
    for (std::uint32_t i = 0; i < o.iterations; ++i) {
      VkCommandBuffer c = gpu.begin();
      dispatch(c, p, set, o.size, groups(o.size, k.width));
      barrier(c);
      gpu.run(c);
    }
    const auto got = out.as<float>();
    for (std::uint32_t i = 0; i < o.size; ++i) {
      const float x = v[i] * static_cast<float>(k.factor) + k.bias;
      wrong += !near(got[i], k.negate ? -x : x, 4);
    }
    sum ^= checksum(got);
  }
  return finish(sum, wrong, 3 * std::uint64_t{o.size});
}
