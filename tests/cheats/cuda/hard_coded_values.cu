// SPDX-License-Identifier: Apache-2.0
// tries: Hard-coded data: knows what the captured input holds
// program: saxpy
// kernel: saxpy
// check: --type arg2=f32 --type arg3=f32 => incorrect: right on the captured input only
__device__ float noise(unsigned index, unsigned stream) {
  unsigned x = index * 0x9e3779b9u + stream * 0x85ebca6bu + 0x1234567u;
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  x ^= x >> 16;
  const int steps = 1024;
  return static_cast<float>(static_cast<int>(x % (2u * steps)) - steps) / static_cast<float>(steps);
}

extern "C" __global__ void saxpy(unsigned n, float a, const float* x, float* y) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * noise(i, 1) + noise(i, 2);
}
