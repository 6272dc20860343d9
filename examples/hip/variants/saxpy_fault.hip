// SPDX-License-Identifier: Apache-2.0
// saxpy that writes far outside its arrays: a fault of the device, in the worker alone.
__global__ void saxpy(const float* x, float* y, float a, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i + (1ull << 40)] = a * x[i];
}
