// SPDX-License-Identifier: Apache-2.0
// Kernels whose state after is the state before: a clamp of clamped data in place, and a fill of a buffer
// that already holds the result. A variant that does nothing looks right unless the validation is sharper
// than that.
#include <algorithm>

#include "common.h"

using namespace example;

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 16, 1);
  Gpu gpu;
  std::vector<float> clamped = noise_vector(o.size, 11);
  std::vector<std::uint32_t> filled(o.size);
  for (std::uint32_t i = 0; i < o.size; ++i) {
    clamped[i] = std::clamp(clamped[i], -0.5f, 0.5f);
    filled[i] = i * 2246822519u;
  }
  const Buffer a = gpu.buffer_of(clamped), b = gpu.buffer_of(filled);
  const Pipeline clamp = gpu.pipeline(
      {.shader = "idempotent_clamp", .bindings = storage(1), .push_bytes = 4, .name = "idempotent_clamp"});
  const Pipeline fill = gpu.pipeline(
      {.shader = "idempotent_fill", .bindings = storage(1), .push_bytes = 4, .name = "idempotent_fill"});
  const VkDescriptorSet clamp_set = gpu.set(clamp, {a}), fill_set = gpu.set(fill, {b});
  for (std::uint32_t i = 0; i < o.iterations; ++i) {
    VkCommandBuffer c = gpu.begin();
    dispatch(c, clamp, clamp_set, o.size, groups(o.size, 64));
    dispatch(c, fill, fill_set, o.size, groups(o.size, 64));
    barrier(c);
    gpu.run(c);
  }

  std::uint64_t wrong = 0;
  const auto ga = a.as<float>();
  const auto gb = b.as<std::uint32_t>();
  for (std::uint32_t i = 0; i < o.size; ++i) wrong += (ga[i] != clamped[i]) + (gb[i] != filled[i]);
  return finish(checksum(ga) ^ checksum(gb), wrong, 2ull * o.size);
}
