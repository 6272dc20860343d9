// SPDX-License-Identifier: Apache-2.0
// tries: Batch once, no-op later: works in its first launches only
// program: saxpy
// kernel: saxpy
// check: --type arg2=f32 --type arg3=f32 => incorrect: earlier launch left in its variable launches
__device__ unsigned launches;
extern "C" __global__ void saxpy(unsigned n, float a, const float* x, float* y) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned seen = launches;
  if (i < n && seen < 3) y[i] = a * x[i] + y[i];
  if (i == 0) atomicAdd(&launches, 1u);
}
