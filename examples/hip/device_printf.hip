// SPDX-License-Identifier: Apache-2.0
// A kernel that prints: its hidden arguments lead to a buffer that this process's runtime serves.
#include "common.h"

using namespace example;

__global__ void tell(unsigned* x, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  x[i] = x[i] * 2 + i;
  if (i == 0) printf("kernel: x[0] is now %u\n", x[0]);
}

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 8, 1);
  device();
  std::vector<std::uint32_t> x(o.size);
  for (std::uint32_t i = 0; i < o.size; ++i) x[i] = hash_word(i, 43) & 0xffff;
  unsigned* dx = to_device(x);
  for (std::uint32_t r = 0; r < o.repeat; ++r) {
    tell<<<blocks(o.size, 64), 64>>>(dx, o.size);
    LAUNCHED();
    for (std::uint32_t i = 0; i < o.size; ++i) x[i] = x[i] * 2 + i;
  }
  HIP(hipDeviceSynchronize());
  Verdict v;
  v.compare("x", to_host(dx, o.size), x);
  return v.finish();
}
