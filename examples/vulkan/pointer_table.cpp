// SPDX-License-Identifier: Apache-2.0
// No descriptor at all: push constants hold the address of a table of addresses of blocks that hold addresses
// of values. A large buffer has an address too, but nothing leads to it: scope `reachable` must leave it out.
#include "common.h"

using namespace example;

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 17, 1);
  Gpu gpu({.device_address = true});
  const std::uint32_t blocks = 4;
  struct Block {
    VkDeviceAddress values;
    float scale;
    std::uint32_t shift;
  };
  std::vector<VkDeviceAddress> table;
  std::vector<Block> block;
  std::vector<std::vector<float>> values;
  for (std::uint32_t b = 0; b < blocks; ++b) {
    values.push_back(noise_vector(o.size, 10 + b));
    block.push_back(
        {gpu.buffer_of(values[b], 0, b == 0 ? "values 0" : nullptr).address, 0.25f * (b + 1), b * 17});
    table.push_back(gpu.buffer_of(std::vector<Block>{block[b]}).address);
  }
  const Buffer table_buffer = gpu.buffer_of(table, 0, "table");
  const Buffer out = gpu.buffer(o.size * 4, 0, "result");
  const Buffer unreached = gpu.buffer(8 * VkDeviceSize{o.size} * 4, 0, "unreached");
  for (float& f : unreached.as<float>()) f = 1.5f;

  struct Push {
    VkDeviceAddress table, out;
    std::uint32_t blocks, n;
  } push{table_buffer.address, out.address, blocks, o.size};
  const Pipeline p =
      gpu.pipeline({.shader = "pointer_table", .push_bytes = sizeof(Push), .name = "pointer_table"});

  for (std::uint32_t i = 0; i < o.iterations; ++i) {
    VkCommandBuffer c = gpu.begin();
    vkCmdBindPipeline(c, VK_PIPELINE_BIND_POINT_COMPUTE, p.handle);
    vkCmdPushConstants(c, p.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof push, &push);
    vkCmdDispatch(c, groups(o.size, 64), 1, 1);
    barrier(c);
    gpu.run(c);
  }

  std::uint64_t wrong = 0;
  const auto got = out.as<float>();
  for (std::uint32_t i = 0; i < o.size; ++i) {
    float sum = 0;
    for (std::uint32_t b = 0; b < blocks; ++b)
      sum += block[b].scale * values[b][(i + block[b].shift) % o.size];
    wrong += !near(got[i], sum);
  }
  return finish(checksum(got), wrong, o.size);
}
