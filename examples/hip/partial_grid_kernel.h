// SPDX-License-Identifier: Apache-2.0
// The kernel of partial_grid.hip, by itself so that a code object is made of it. It checks no bound: the grid is exact.
// blockDim is the size of a partial block in it, so the block is written out.

#include <hip/hip_runtime.h>

extern "C" __global__ void fill_volume(unsigned* out, unsigned width, unsigned height, unsigned seed) {
  const unsigned x = blockIdx.x * 16 + threadIdx.x;
  const unsigned y = blockIdx.y * 4 + threadIdx.y;
  const unsigned z = blockIdx.z * 2 + threadIdx.z;
  out[(z * height + y) * width + x] += seed * (x + 1) + 1000 * y + 1000000 * z;
}
