// SPDX-License-Identifier: Apache-2.0
// tries: NaN: every comparison with it is false
// program: saxpy
// kernel: saxpy
// check: --type arg2=f32 --type arg3=f32 --level numeric => incorrect: NaN
extern "C" __global__ void saxpy(unsigned n, float a, const float* x, float* y) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = __int_as_float(0x7fc00000);
}
