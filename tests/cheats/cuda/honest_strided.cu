// SPDX-License-Identifier: Apache-2.0
// tries: Honest: each thread takes several elements
// program: saxpy
// kernel: saxpy
// check: --type arg2=f32 --type arg3=f32 => correct: bitwise equal
extern "C" __global__ void saxpy(unsigned n, float a, const float* x, float* y) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  for (unsigned k = i; k < n; k += gridDim.x * blockDim.x) y[k] = a * x[k] + y[k];
}
