// SPDX-License-Identifier: Apache-2.0
// Rounds of the logistic map, one element a thread: as long as one likes on no memory to speak of.
#pragma once

// Roundings are named, so that host and device agree bit for bit: the map is chaotic.
__host__ __device__ inline float logistic_step(float x) {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(__fmul_rn(3.875f, x), __fsub_rn(1.0f, x));
#else
  const float grown = 3.875f * x, left = 1.0f - x;
  return grown * left;
#endif
}

extern "C" __global__ void logistic(unsigned n, unsigned rounds, const float* __restrict__ in, float* __restrict__ out) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float x = in[i];
#pragma unroll 4
  for (unsigned r = 0; r < rounds; ++r) x = logistic_step(x);
  out[i] = x;
}
