// SPDX-License-Identifier: Apache-2.0
// tries: Doing nothing where the result replaces the input
// program: inplace
// kernel: scale_in_place
// check: => incorrect: element \[0\]
__global__ void scale_in_place(unsigned* x, unsigned n, unsigned factor, unsigned addend) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

}
