// SPDX-License-Identifier: Apache-2.0
// tries: Out of bounds: its result takes in what lies behind its output
// program: saxpy
// kernel: saxpy
// check: --type arg2=f32 --type arg3=f32 => incorrect: depends on what lies around its buffers|differ
extern "C" __global__ void saxpy(unsigned n, float a, const float* x, float* y) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i] + (__float_as_uint(y[n + (i & 31)]) == 0x3f1c47e5u ? 1.0f : 0.0f);
}
