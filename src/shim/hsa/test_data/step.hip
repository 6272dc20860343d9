// SPDX-License-Identifier: Apache-2.0
// Two kernels, and a variable that no other code object can name.
#include <hip/hip_runtime.h>

struct Pack {
  const float* a;
  float* b;
  long long c, d;
};
static __device__ unsigned hidden_state;

extern "C" __global__ void step(float* x, unsigned n, Pack pack, char kind) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = pack.a[i] + pack.b[i] * kind;
  if (i == 0) hidden_state += n;
}
extern "C" __global__ void other(int* x) { x[threadIdx.x] += static_cast<int>(hidden_state) + printf("%d\n", x[0]); }
