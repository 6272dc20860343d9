// SPDX-License-Identifier: Apache-2.0
// A program that holds much (--hold-gib) and touches 64 MiB of it in a kernel: what is reachable is small.
#include <algorithm>

#include "common.h"

using namespace example;

__global__ void touch_little(unsigned* x, unsigned n, unsigned turn) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = (x[i] * 5 + turn) | 0x80000000u;
}

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 16u << 20, 2, {}, {{"--hold-gib", 32}});
  const std::size_t gib = o.numbers.at("--hold-gib");
  if ((gib << 30) > device().totalGlobalMem / 10 * 9) skip("that is more than the device's memory");
  std::vector<unsigned char*> held;
  for (std::size_t left = gib; left > 0; left -= std::min<std::size_t>(left, 4)) {
    const std::size_t bytes = std::min<std::size_t>(left, 4) << 30;
    held.push_back(allocate<unsigned char>(bytes));
    CUDA(cudaMemsetAsync(held.back(), 0x5a, bytes));
  }
  std::vector<std::uint32_t> x(o.size);
  for (std::uint32_t i = 0; i < o.size; ++i) x[i] = hash_word(i, 24) | 0x80000000u;
  unsigned* dx = to_device(x);
  for (std::uint32_t r = 0; r < o.repeat; ++r) {
    touch_little<<<blocks(o.size, 256), 256>>>(dx, o.size, r);
    LAUNCHED();
    for (std::uint32_t& word : x) word = (word * 5 + r) | 0x80000000u;
  }
  Verdict v;
  v.compare("x", to_host(dx, o.size), x);
  for (unsigned char* p : held) v.compare("held", to_host(p, 4), std::vector<unsigned char>(4, 0x5a));
  return v.finish();
}
