// SPDX-License-Identifier: Apache-2.0
// saxpy with a mistake that a look at a few values does not show: the last element of each 4096 is left out.
extern "C" __global__ void saxpy(unsigned n, float a, const float* __restrict__ x, float* __restrict__ y) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && (i & 4095u) != 4095u) y[i] = a * x[i] + y[i];
}
