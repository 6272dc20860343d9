// SPDX-License-Identifier: Apache-2.0
// tries: Precision downgrade: computes in 16 bits
// program: saxpy
// kernel: saxpy
// check: --type arg2=f32 --type arg3=f32 --level numeric => incorrect: by more than the tolerance
#include <cuda_fp16.h>
extern "C" __global__ void saxpy(unsigned n, float a, const float* x, float* y) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = __half2float(__hfma(__float2half(a), __float2half(x[i]), __float2half(y[i])));
}
