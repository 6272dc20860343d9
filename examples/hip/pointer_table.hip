// SPDX-License-Identifier: Apache-2.0
// Pointers two levels deep: the argument leads to a table of blocks, each block to its own arrays of values.
// A large array that nothing leads to is not part of what the kernel can reach.
#include "common.h"

using namespace example;

struct Block {
  const unsigned* values;
  unsigned* result;
  unsigned count, weight;
};

__global__ void weigh_blocks(const Block* const* table, unsigned entries) {
  for (unsigned e = blockIdx.y; e < entries; e += gridDim.y) {
    const Block* b = table[e];
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < b->count) b->result[i] = b->values[i] * b->weight + e;
  }
}

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 10, 1);
  device();
  constexpr std::uint32_t kBlocks = 8;
  std::uint32_t* unreached = to_device(std::vector<std::uint32_t>(4u << 20, 0xabcdef01u));  // 16 MiB
  std::vector<std::vector<std::uint32_t>> values(kBlocks);
  std::vector<Block*> table;
  std::vector<unsigned*> results;
  for (std::uint32_t e = 0; e < kBlocks; ++e) {
    // Two small arrays and one large: some share a granule of the allocator, some do not.
    const std::uint32_t count = e == 3 ? o.size * 8 : o.size / (e + 1) + 1;
    values[e].resize(count);
    for (std::uint32_t i = 0; i < count; ++i) values[e][i] = hash_word(i, e);
    results.push_back(to_device(std::vector<std::uint32_t>(count, 0x80000000u | e)));
    table.push_back(to_device(std::vector<Block>{{to_device(values[e]), results.back(), count, 2 * e + 3}}));
  }
  Block** dtable = to_device(table);
  for (std::uint32_t r = 0; r < o.repeat; ++r) {
    weigh_blocks<<<dim3(blocks(std::size_t{o.size} * 8, 256), 4), 256>>>(dtable, kBlocks);
    LAUNCHED();
  }
  Verdict v;
  for (std::uint32_t e = 0; e < kBlocks; ++e) {
    std::vector<std::uint32_t> expected;
    for (std::uint32_t x : values[e]) expected.push_back(x * (2 * e + 3) + e);
    v.compare(("result " + std::to_string(e)).c_str(), to_host(results[e], expected.size()), expected);
  }
  v.compare("unreached", to_host(unreached, 4), std::vector<std::uint32_t>(4, 0xabcdef01u));
  return v.finish();
}
