// SPDX-License-Identifier: Apache-2.0
// A sum in two passes of one shared-memory kernel: the output of the first dispatch is the input of the
// second.
#include "common.h"

using namespace example;

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 20, 1);
  Gpu gpu;
  std::vector<std::uint32_t> values(o.size);
  std::uint32_t expected = 0;
  for (std::uint32_t i = 0; i < o.size; ++i) expected += values[i] = i * 2654435761u >> 7;
  const std::uint32_t parts = 64;
  const Buffer in = gpu.buffer_of(values), partial = gpu.buffer(parts * 4), out = gpu.buffer(4);
  const Pipeline p = gpu.pipeline({.shader = "reduction", .bindings = storage(2), .push_bytes = 4});
  const VkDescriptorSet first = gpu.set(p, {in, partial}), second = gpu.set(p, {partial, out});

  for (std::uint32_t i = 0; i < o.iterations; ++i) {
    VkCommandBuffer c = gpu.begin();
    dispatch(c, p, first, o.size, parts);
    barrier(c);
    dispatch(c, p, second, parts, 1);
    barrier(c);
    gpu.run(c);
  }
  const std::uint32_t got = out.as<std::uint32_t>()[0];
  return finish(checksum(partial.as<std::uint32_t>()) ^ got, got != expected, 1);
}
