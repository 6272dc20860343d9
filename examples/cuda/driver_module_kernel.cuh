// SPDX-License-Identifier: Apache-2.0
// Device code that driver_module loads itself, as PTX.
#pragma once

extern "C" __device__ unsigned module_bias = 3;

extern "C" __global__ void add_bias(unsigned char tag, unsigned* x, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = x[i] + module_bias * tag;
}
