// SPDX-License-Identifier: Apache-2.0
// tries: Input destruction: zeroes what it read
// program: saxpy
// kernel: saxpy
// check: --type arg2=f32 --type arg3=f32 => incorrect: outside what the baseline writes
extern "C" __global__ void saxpy(unsigned n, float a, float* x, float* y) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    y[i] = a * x[i] + y[i];
    x[i] = 0;
  }
}
