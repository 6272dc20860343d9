// SPDX-License-Identifier: Apache-2.0
// A good launch, then one that writes far outside any allocation: the runtime reports a memory access fault
// and ends the program, as it does on hardware. What was taken of the first must not be lost.
#include "common.h"

using namespace example;

__global__ void before_the_fault(unsigned* x, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = x[i] * 2 + i;
}
__global__ void write_outside(unsigned* x, unsigned long long distance) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  x[distance + i] = i;
}

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 12, 1);
  device();
  std::vector<std::uint32_t> x(o.size, 5);
  unsigned* dx = to_device(x);
  before_the_fault<<<blocks(o.size, 256), 256>>>(dx, o.size);
  LAUNCHED();
  for (std::uint32_t i = 0; i < o.size; ++i) x[i] = x[i] * 2 + i;
  Verdict v;
  v.compare("x", to_host(dx, o.size), x);
  v.finish("then a fault");
  std::fflush(stdout);
  write_outside<<<1, 32>>>(dx, 1ull << 40);
  const hipError_t launched = hipGetLastError(), result = hipDeviceSynchronize();
  if (launched == hipSuccess && result == hipSuccess) die("no fault was reported");
  return 0;
}
