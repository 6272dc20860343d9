// SPDX-License-Identifier: Apache-2.0
// 8-bit and 16-bit storage (integers and halfs), with an odd number of elements.
#include "common.h"

using namespace example;

namespace {
/// A half of a value that is exactly representable (0 or from 0.5 to 511.5).
std::uint16_t half_of(std::uint32_t twice) {
  if (twice == 0) return 0;
  int exponent = 31;
  while (!(twice >> exponent & 1)) --exponent;
  return static_cast<std::uint16_t>((exponent - 1 + 15) << 10 | ((twice << (10 - exponent)) & 0x3ff));
}
}  // namespace

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, (1 << 16) + 1, 1);
  Gpu gpu({.storage8 = true, .storage16 = true});
  std::vector<std::uint8_t> b(o.size);
  std::vector<std::uint16_t> s(o.size);
  for (std::uint32_t i = 0; i < o.size; ++i)
    b[i] = static_cast<std::uint8_t>(i * 7), s[i] = static_cast<std::uint16_t>(i * 31);
  const Buffer bytes = gpu.buffer_of(b), shorts = gpu.buffer_of(s),
               halfs = gpu.buffer(2 * VkDeviceSize{o.size});
  const Pipeline p = gpu.pipeline({.shader = "small_types", .bindings = storage(3), .push_bytes = 4});
  const VkDescriptorSet set = gpu.set(p, {bytes, shorts, halfs});

  for (std::uint32_t i = 0; i < o.iterations; ++i) {
    VkCommandBuffer c = gpu.begin();
    dispatch(c, p, set, o.size, groups(o.size, 64));
    barrier(c);
    gpu.run(c);
    for (std::uint32_t k = 0; k < o.size; ++k) s[k] = static_cast<std::uint16_t>(b[k] * 3u + s[k]);
  }

  std::uint64_t wrong = 0;
  const auto gs = shorts.as<std::uint16_t>(), gh = halfs.as<std::uint16_t>();
  for (std::uint32_t i = 0; i < o.size; ++i) {
    // The half comes from the sum before it is cut to 16 bits; the low ten bits are the same.
    wrong += gs[i] != s[i] || gh[i] != half_of(s[i] & 1023u);
  }
  return finish(checksum(gs) ^ checksum(gh), wrong, o.size);
}
