// SPDX-License-Identifier: Apache-2.0
// Managed memory that host and device write in turns, with a pointer to a second managed block inside the
// first.
#include "common.h"

using namespace example;

struct Node {
  unsigned* values;
  unsigned count, round;
};

__global__ void advance_managed(Node* node) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < node->count) node->values[i] = node->values[i] * 7 + node->round;
}

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 13, 3);
  if (device().managedMemory == 0) skip("the device has no managed memory");
  Node* node = nullptr;
  unsigned* values = nullptr;
  HIP(hipMallocManaged(&node, sizeof(Node)));
  HIP(hipMallocManaged(&values, std::size_t{o.size} * 4));
  std::vector<std::uint32_t> expected(o.size);
  for (std::uint32_t i = 0; i < o.size; ++i) values[i] = expected[i] = hash_word(i, 14);
  *node = {values, o.size, 0};
  for (std::uint32_t r = 0; r < o.repeat; ++r) {
    node->round = r + 1;
    values[r] ^= 0x55u;  // the host's turn
    expected[r] ^= 0x55u;
    advance_managed<<<blocks(o.size, 256), 256>>>(node);
    LAUNCHED();
    HIP(hipDeviceSynchronize());
    for (std::uint32_t i = 0; i < o.size; ++i) expected[i] = expected[i] * 7 + r + 1;
  }
  Verdict v;
  v.compare("values", std::vector<std::uint32_t>(values, values + o.size), expected);
  return v.finish();
}
