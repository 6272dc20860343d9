// SPDX-License-Identifier: Apache-2.0
// logistic with EXTRA thousandths of its rounds more, on a value that changes nothing of the result: a slowdown of known size.
#ifndef EXTRA
#define EXTRA 10
#endif
__device__ inline float step(float x) { return __fmul_rn(__fmul_rn(3.875f, x), __fsub_rn(1.0f, x)); }

extern "C" __global__ void logistic(unsigned n, unsigned rounds, const float* __restrict__ in, float* __restrict__ out) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float x = in[i];
#pragma unroll 4
  for (unsigned r = 0; r < rounds; ++r) x = step(x);
  const unsigned more = rounds * EXTRA / 1000;
  float y = in[i];
#pragma unroll 4
  for (unsigned r = 0; r < more; ++r) y = step(y);
  if (y > 2.0f) x = y;  // never: the map stays below 1
  out[i] = x;
}
