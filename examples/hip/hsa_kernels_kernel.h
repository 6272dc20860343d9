// SPDX-License-Identifier: Apache-2.0
// Kernels of hsa_kernels.hip. They ask for nothing that a HIP runtime would put behind their arguments.

struct FoldTable {
  unsigned* x;
  unsigned* sums;
  unsigned n, round;
};

extern "C" __global__ __launch_bounds__(256) void hsa_spread(unsigned* x, unsigned n, unsigned round) {
  const unsigned i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) x[i] += (i + 1) * (round + 1);
}

// Adds each block's sum to what the rounds before left.
extern "C" __global__ __launch_bounds__(256) void hsa_fold(const FoldTable* table) {
  __shared__ unsigned part[256];
  const unsigned i = blockIdx.x * 256 + threadIdx.x;
  part[threadIdx.x] = i < table->n ? table->x[i] : 0;
  for (unsigned half = 128; half != 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
  }
  if (threadIdx.x == 0) table->sums[blockIdx.x] += part[0] ^ table->round;
}

extern "C" __global__ __launch_bounds__(256) void hsa_scale(unsigned* x, unsigned n, unsigned factor) {
  const unsigned i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) x[i] = x[i] * factor + 1;
}
