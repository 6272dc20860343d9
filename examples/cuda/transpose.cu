// SPDX-License-Identifier: Apache-2.0
// A square matrix transposed through shared memory, with bank conflicts and without.
#include "common.h"
#include "transpose_kernel.cuh"

using namespace example;

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1024, 1);
  device();
  const std::size_t n = o.size;
  const std::vector<float> in = noise_vector(n * n, 3);
  const float* din = to_device(in);
  float *naive = to_device(std::vector<float>(n * n)), *padded = to_device(std::vector<float>(n * n));
  const dim3 grid(blocks(n, 32), blocks(n, 32)), block(32, 8);
  for (std::uint32_t r = 0; r < o.repeat; ++r) {
    transpose_naive<<<grid, block>>>(din, naive, o.size);
    LAUNCHED();
    transpose_padded<<<grid, block>>>(din, padded, o.size);
    LAUNCHED();
  }
  std::vector<float> expected(n * n);
  for (std::size_t y = 0; y < n; ++y)
    for (std::size_t x = 0; x < n; ++x) expected[x * n + y] = in[y * n + x];
  Verdict v;
  v.compare("naive", to_host(naive, n * n), expected);
  v.compare("padded", to_host(padded, n * n), expected);
  return v.finish();
}
