// SPDX-License-Identifier: Apache-2.0
// Sum and maximum of integers: shared memory in each block, then one atomic a block into global memory.
#include <algorithm>

#include "common.h"

using namespace example;

struct Totals {
  unsigned long long sum;
  unsigned maximum;
  unsigned blocks_done;
};

__global__ void reduce_sum_max(const unsigned* __restrict__ values, unsigned n, Totals* totals) {
  __shared__ unsigned long long sums[256];
  __shared__ unsigned maxima[256];
  unsigned long long sum = 0;
  unsigned maximum = 0;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    sum += values[i];
    maximum = max(maximum, values[i]);
  }
  sums[threadIdx.x] = sum;
  maxima[threadIdx.x] = maximum;
  for (unsigned s = blockDim.x / 2; s > 0; s /= 2) {
    __syncthreads();
    if (threadIdx.x < s) {
      sums[threadIdx.x] += sums[threadIdx.x + s];
      maxima[threadIdx.x] = max(maxima[threadIdx.x], maxima[threadIdx.x + s]);
    }
  }
  if (threadIdx.x == 0) {
    atomicAdd(&totals->sum, sums[0]);
    atomicMax(&totals->maximum, maxima[0]);
    atomicAdd(&totals->blocks_done, 1u);
  }
}

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 22, 2);
  device();
  std::vector<std::uint32_t> values(o.size);
  for (std::uint32_t i = 0; i < o.size; ++i) values[i] = hash_word(i) >> 4;
  const std::uint32_t* d = to_device(values);
  Totals* totals = to_device(std::vector<Totals>(1, Totals{}));
  const unsigned grid = std::min(blocks(o.size, 256), 1024u);
  for (std::uint32_t r = 0; r < o.repeat; ++r) {
    reduce_sum_max<<<grid, 256>>>(d, o.size, totals);
    LAUNCHED();
  }
  std::uint64_t sum = 0;
  std::uint32_t maximum = 0;
  for (std::uint32_t x : values) sum += x, maximum = std::max(maximum, x);
  const Totals got = to_host(totals, 1)[0];
  Verdict v;
  v.compare<std::uint64_t>("sum", {got.sum}, {sum * o.repeat});
  v.compare<std::uint32_t>("maximum and blocks", {got.maximum, got.blocks_done}, {maximum, grid * o.repeat});
  return v.finish();
}
