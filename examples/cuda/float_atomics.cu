// SPDX-License-Identifier: Apache-2.0
// A float sum by atomicAdd: its last bits depend on the order of blocks, so two runs may differ in one word.
// The second word, a count, never does.
#include "common.h"

using namespace example;

struct Sum {
  float value;
  unsigned blocks;
};

__global__ void sum_atomically(const float* __restrict__ x, unsigned n, Sum* sum) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&sum->value, x[i]);
  if (threadIdx.x == 0) atomicAdd(&sum->blocks, 1u);
}

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 20, 1);
  device();
  std::vector<float> x(o.size);
  double expected = 0;
  for (std::uint32_t i = 0; i < o.size; ++i) {
    x[i] = 1.0f / static_cast<float>(1 + hash_word(i, 23) % 1000003u);
    expected += x[i];
  }
  const float* d = to_device(x);
  Sum* sum = to_device(std::vector<Sum>(1, Sum{}));
  for (std::uint32_t r = 0; r < o.repeat; ++r) {
    sum_atomically<<<blocks(o.size, 256), 256>>>(d, o.size, sum);
    LAUNCHED();
  }
  const Sum got = to_host(sum, 1)[0];
  expected *= o.repeat;
  Verdict v;
  v.near("sum", got.value, expected, 1e-3 * expected + 1e-3);
  v.compare<std::uint32_t>("blocks", {got.blocks}, {blocks(o.size, 256) * o.repeat});
  return v.finish();
}
