// SPDX-License-Identifier: Apache-2.0
// LDS whose size the launch chooses, beside some that the kernel declares itself.
#include "common.h"

using namespace example;

__global__ void reverse_blocks(const unsigned* x, unsigned* y) {
  extern __shared__ unsigned tile[];
  __shared__ unsigned first;
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x] = x[i];
  if (threadIdx.x == 0) first = x[i];
  __syncthreads();
  y[i] = tile[blockDim.x - 1 - threadIdx.x] ^ first;
}

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 12, 1);
  device();
  constexpr unsigned kBlock = 128;
  const unsigned count = blocks(o.size, kBlock), n = count * kBlock;
  std::vector<std::uint32_t> x(n), y(n);
  for (std::uint32_t i = 0; i < n; ++i) x[i] = hash_word(i, 35);
  unsigned *dx = to_device(x), *dy = allocate<unsigned>(n);
  for (std::uint32_t r = 0; r < o.repeat; ++r) {
    reverse_blocks<<<count, kBlock, kBlock * sizeof(unsigned)>>>(dx, dy);
    LAUNCHED();
  }
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::uint32_t base = i / kBlock * kBlock;
    y[i] = x[base + kBlock - 1 - i % kBlock] ^ x[base];
  }
  Verdict v;
  v.compare("y", to_host(dy, n), y);
  return v.finish();
}
