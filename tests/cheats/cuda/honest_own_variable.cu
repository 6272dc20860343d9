// SPDX-License-Identifier: Apache-2.0
// tries: Honest: counts its launches in a variable of its own, and does all of its work
// program: saxpy
// kernel: saxpy
// check: --type arg2=f32 --type arg3=f32 => correct: bitwise equal
__device__ unsigned launches;
extern "C" __global__ void saxpy(unsigned n, float a, const float* x, float* y) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
  if (i == 0) atomicAdd(&launches, 1u);
}
