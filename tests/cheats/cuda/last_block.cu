// SPDX-License-Identifier: Apache-2.0
// tries: Leaves the last, partial block unwritten
// program: saxpy --size 1000
// kernel: saxpy
// check: --type arg2=f32 --type arg3=f32 => incorrect: element \[768\]
extern "C" __global__ void saxpy(unsigned n, float a, const float* x, float* y) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (blockIdx.x < n / 256) y[i] = a * x[i] + y[i];
}
