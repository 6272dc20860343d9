// SPDX-License-Identifier: Apache-2.0
// tries: Cached output by pointer: keeps its result in a variable of its own
// program: saxpy
// kernel: saxpy
// check: --type arg2=f32 --type arg3=f32 => incorrect: earlier launch left in its variable
__device__ float kept[1 << 20];
__device__ float* known;
extern "C" __global__ void saxpy(unsigned n, float a, const float* x, float* y) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  if (known == y) {
    y[i] = kept[i];
    return;
  }
  kept[i] = a * x[i] + y[i];
  y[i] = kept[i];
  if (i == n - 1) known = y;
}
