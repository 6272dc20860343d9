// SPDX-License-Identifier: Apache-2.0
// Sums of blocks in LDS, then a sum of those: the second kernel reads what the first wrote.
#include "common.h"

using namespace example;

__global__ void sum_blocks(const unsigned* x, unsigned* partial, unsigned n) {
  __shared__ unsigned lanes[256];
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  lanes[threadIdx.x] = i < n ? x[i] : 0;
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half != 0; half /= 2) {
    if (threadIdx.x < half) lanes[threadIdx.x] += lanes[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) partial[blockIdx.x] = lanes[0];
}

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 14, 1);
  device();
  std::vector<std::uint32_t> x(o.size);
  for (std::uint32_t i = 0; i < o.size; ++i) x[i] = hash_word(i);
  const unsigned count = blocks(o.size, 256);
  unsigned *dx = to_device(x), *dpartial = allocate<unsigned>(count),
           *dsum = allocate<unsigned>(blocks(count, 256));
  for (std::uint32_t r = 0; r < o.repeat; ++r) {
    sum_blocks<<<count, 256>>>(dx, dpartial, o.size);
    LAUNCHED();
    sum_blocks<<<blocks(count, 256), 256>>>(dpartial, dsum, count);
    LAUNCHED();
  }
  std::vector<std::uint32_t> partial(count), sum(blocks(count, 256));
  for (std::uint32_t i = 0; i < o.size; ++i) partial[i / 256] += x[i];
  for (std::uint32_t i = 0; i < count; ++i) sum[i / 256] += partial[i];
  Verdict v;
  v.compare("partial", to_host(dpartial, count), partial);
  v.compare("sum", to_host(dsum, sum.size()), sum);
  return v.finish();
}
