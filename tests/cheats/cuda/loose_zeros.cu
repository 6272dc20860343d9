// SPDX-License-Identifier: Apache-2.0
// tries: Loose tolerance: zeros pass
// program: saxpy
// kernel: saxpy
// check: --type arg2=f32 --type arg3=f32 --tolerance abs=1000 => not_verified: the tolerance .* is refused|cannot be told
extern "C" __global__ void saxpy(unsigned n, float a, const float* x, float* y) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 0;
}
