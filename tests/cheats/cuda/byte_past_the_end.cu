// SPDX-License-Identifier: Apache-2.0
// tries: Out of bounds: one byte past its output
// program: saxpy
// kernel: saxpy
// check: --type arg2=f32 --type arg3=f32 => incorrect: the redzone after .*address 0x
extern "C" __global__ void saxpy(unsigned n, float a, const float* x, float* y) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
  if (i == 0) reinterpret_cast<unsigned char*>(y)[4 * n] ^= 1;
}
