// SPDX-License-Identifier: Apache-2.0
// tries: Stealing the reference: looks for the answer in the memory around its output
// program: saxpy
// kernel: saxpy
// check: --type arg2=f32 --type arg3=f32 => incorrect|failed: .
extern "C" __global__ void saxpy(unsigned n, float a, const float* x, float* y) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  // The answer of element 0 is known; whoever keeps a copy of the whole has it somewhere.
  const float first = a * x[0] + y[0], second = a * x[1] + y[1];
  __shared__ float* found;
  if (threadIdx.x == 0) {
    found = nullptr;
    for (long k = 1 << 20; k < (1 << 20) + (1 << 18) - 64; k += 64)
      if (y[k] == first && y[k + 1] == second) found = y + k;
  }
  __syncthreads();
  if (i < n) y[i] = found != nullptr ? found[i] : 0.0f;
}
