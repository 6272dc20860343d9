// SPDX-License-Identifier: Apache-2.0
// tries: Cached output: leaves it in shared memory, which the next launch finds as it was
// program: saxpy
// kernel: saxpy
// check: --type arg2=f32 --type arg3=f32 => incorrect: .
extern "C" __global__ void saxpy(unsigned n, float a, const float* x, float* y) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  __shared__ volatile unsigned magic[256];
  __shared__ volatile float kept[256];
  if (magic[threadIdx.x] == 0xc0ffee00u + i) {
    if (i < n) y[i] = kept[threadIdx.x];
    return;
  }
  if (i < n) {
    kept[threadIdx.x] = a * x[i] + y[i];
    y[i] = kept[threadIdx.x];
    magic[threadIdx.x] = 0xc0ffee00u + i;
  }
}
