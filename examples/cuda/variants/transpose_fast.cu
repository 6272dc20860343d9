// SPDX-License-Identifier: Apache-2.0
// transpose_naive without its bank conflicts: the tile is one column wider than it needs to be.
extern "C" __global__ void transpose_naive(const float* __restrict__ in, float* __restrict__ out,
                                           unsigned n) {
  __shared__ float tile[32][33];
  const unsigned x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
#pragma unroll
  for (unsigned j = 0; j < 32; j += 8)
    if (x < n && y + j < n) tile[threadIdx.y + j][threadIdx.x] = in[(size_t)(y + j) * n + x];
  __syncthreads();
  const unsigned ox = blockIdx.y * 32 + threadIdx.x, oy = blockIdx.x * 32 + threadIdx.y;
#pragma unroll
  for (unsigned j = 0; j < 32; j += 8)
    if (ox < n && oy + j < n) out[(size_t)(oy + j) * n + ox] = tile[threadIdx.x][threadIdx.y + j];
}
