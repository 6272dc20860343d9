// SPDX-License-Identifier: Apache-2.0
// tries: Hard-coded shape: knows how many elements the captured launch has
// program: saxpy
// kernel: saxpy
// check: --type arg2=f32 --type arg3=f32 --unseen "push=0=00000800" => incorrect: another launch
extern "C" __global__ void saxpy(unsigned n, float a, const float* x, float* y) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < 1048576u) y[i] = a * x[i] + y[i];
}
