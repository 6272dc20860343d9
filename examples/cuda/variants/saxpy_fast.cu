// SPDX-License-Identifier: Apache-2.0
// saxpy with four elements a thread where the arrays allow it: same result bit for bit, and the same launch
// will do (the threads of the last three quarters of the grid find nothing to do).
extern "C" __global__ void saxpy(unsigned n, float a, const float* __restrict__ x, float* __restrict__ y) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x, quads = n / 4;
  if (i < quads) {
    const float4 p = reinterpret_cast<const float4*>(x)[i];
    float4 q = reinterpret_cast<float4*>(y)[i];
    q.x = a * p.x + q.x;
    q.y = a * p.y + q.y;
    q.z = a * p.z + q.z;
    q.w = a * p.w + q.w;
    reinterpret_cast<float4*>(y)[i] = q;
  } else if (const unsigned k = quads * 4 + (i - quads); k < n && i - quads < n % 4) {
    y[k] = a * x[k] + y[k];
  }
}
