// SPDX-License-Identifier: Apache-2.0
// saxpy with two elements a thread, half a grid apart: same result bit for bit, and the same launch will do.
__global__ void saxpy(const float* x, float* y, float a, unsigned n) {
  const unsigned half = (n + 1) / 2, i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= half) return;
  y[i] = a * x[i] + y[i];
  if (i + half < n) y[i + half] = a * x[i + half] + y[i + half];
}
