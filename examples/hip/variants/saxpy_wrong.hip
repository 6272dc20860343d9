// SPDX-License-Identifier: Apache-2.0
// saxpy that forgets the last element: it must be found out.
__global__ void saxpy(const float* x, float* y, float a, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i + 1 < n) y[i] = a * x[i] + y[i];
}
