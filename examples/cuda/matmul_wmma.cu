// SPDX-License-Identifier: Apache-2.0
// c = a*b in half precision on the matrix units, through the WMMA interface: one 16 x 16 tile of c a warp.
// The values are small multiples of 1/8, so every sum is exact. Sides are multiples of 64.
#include <cuda_fp16.h>
#include <mma.h>

#include <algorithm>

#include "common.h"

using namespace example;

__global__ void matmul_wmma(const half* __restrict__ a, const half* __restrict__ b, float* __restrict__ c,
                            unsigned n) {
  using namespace nvcuda;
  const unsigned warp = threadIdx.x / 32;  // four warps: 2 x 2 tiles a block
  const unsigned row = (blockIdx.y * 2 + warp / 2) * 16, column = (blockIdx.x * 2 + warp % 2) * 16;
  if (row >= n || column >= n) return;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fill_fragment(sum, 0.0f);
  for (unsigned k = 0; k < n; k += 16) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> ta;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> tb;
    wmma::load_matrix_sync(ta, a + (size_t)row * n + k, n);
    wmma::load_matrix_sync(tb, b + (size_t)k * n + column, n);
    wmma::mma_sync(sum, ta, tb, sum);
  }
  wmma::store_matrix_sync(c + (size_t)row * n + column, sum, n, wmma::mem_row_major);
}

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 512, 1);
  device(7);
  const std::size_t n = (o.size + 63) / 64 * 64;
  const std::vector<float> a = noise_vector(n * n, 4, 8), b = noise_vector(n * n, 5, 8);
  std::vector<half> ha(n * n), hb(n * n);
  std::transform(a.begin(), a.end(), ha.begin(), [](float x) { return __float2half(x); });
  std::transform(b.begin(), b.end(), hb.begin(), [](float x) { return __float2half(x); });
  const half *da = to_device(ha), *db = to_device(hb);
  float* dc = to_device(std::vector<float>(n * n));
  const dim3 grid(static_cast<unsigned>(n / 32), static_cast<unsigned>(n / 32));
  for (std::uint32_t r = 0; r < o.repeat; ++r) {
    matmul_wmma<<<grid, 128>>>(da, db, dc, static_cast<unsigned>(n));
    LAUNCHED();
  }
  const std::vector<float> c = to_host(dc, n * n);
  // A lattice of at most 128 x 128 elements: the CPU needs n steps for each.
  const std::size_t step = std::max<std::size_t>(1, n / 128);
  std::vector<float> got, expected;
  for (std::size_t i = 0; i < n; i += step)
    for (std::size_t j = i / step % step; j < n; j += step) {
      float sum = 0;
      for (std::size_t k = 0; k < n; ++k) sum += a[i * n + k] * b[k * n + j];
      got.push_back(c[i * n + j]);
      expected.push_back(sum);
    }
  Verdict v;
  v.compare("c at the lattice", got, expected);
  v.add(c.data(), c.size() * sizeof(float));
  return v.finish();
}
