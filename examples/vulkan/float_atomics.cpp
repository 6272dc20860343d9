// SPDX-License-Identifier: Apache-2.0
// A float sum whose last bits change from run to run (4 bytes of the output; all the others are exact), by
// compare-and-exchange, or with --hardware-add by the float atomicAdd of VK_EXT_shader_atomic_float.
#include <cmath>

#include "common.h"

using namespace example;

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 18, 1, {"--hardware-add"});
  const bool hardware = o.has("--hardware-add");
  Gpu gpu({.float_atomic_add = hardware});
  std::vector<float> v = noise_vector(o.size, 8);
  double exact = 0, magnitude = 0;
  for (std::uint32_t i = 0; i < o.size; ++i) {
    v[i] *= std::exp2(static_cast<float>(i % 13));  // wide range of exponents: rounding shows
    exact += v[i], magnitude += std::fabs(v[i]);
  }
  const Buffer in = gpu.buffer_of(v), out = gpu.buffer(8 + in.size, VK_BUFFER_USAGE_TRANSFER_DST_BIT);
  const Pipeline p = gpu.pipeline({.shader = hardware ? "float_atomics_add" : "float_atomics",
                                   .bindings = storage(2),
                                   .push_bytes = 4,
                                   .name = hardware ? "float_atomics_add" : "float_atomics"});
  const VkDescriptorSet set = gpu.set(p, {in, out});
  for (std::uint32_t i = 0; i < o.iterations; ++i) {
    VkCommandBuffer c = gpu.begin();
    vkCmdFillBuffer(c, out.handle, 0, 8, 0);
    barrier(c);
    dispatch(c, p, set, o.size, groups(o.size, 64));
    barrier(c);
    gpu.run(c);
  }

  const auto got = out.as<float>();
  std::uint64_t wrong = !(std::fabs(got[0] - exact) <= 1e-5 * magnitude);
  wrong += out.as<std::uint32_t>()[1] != o.size;
  for (std::uint32_t i = 0; i < o.size; ++i) wrong += got[2 + i] != v[i] * 2;
  return finish(checksum(got.subspan(2)), wrong, o.size + 2ull);  // without the sum, which varies
}
