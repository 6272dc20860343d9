// SPDX-License-Identifier: Apache-2.0
// The kernel of saxpy.hip, by itself so that variants of it can be built (hiprtc too).

__global__ void saxpy(const float* x, float* y, float a, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
