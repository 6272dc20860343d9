// SPDX-License-Identifier: Apache-2.0
// saxpy that never ends.
__global__ void saxpy(const float* x, float* y, float a, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  while (*const_cast<const volatile float*>(x) == *const_cast<const volatile float*>(x) || a != a) {
  }
  if (i < n) y[i] = 0;
}
