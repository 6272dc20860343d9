// SPDX-License-Identifier: Apache-2.0
// A cooperative launch: every block waits for all others in the middle of the kernel.
#include "common.h"

#include <hip/hip_cooperative_groups.h>  // needs hip_runtime.h before it

using namespace example;

__global__ void two_phases(unsigned* x, unsigned* y, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = x[i] * 3 + 1;
  cooperative_groups::this_grid().sync();
  if (i < n) y[i] = x[n - 1 - i];
}

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 8, 1);
  if (device().cooperativeLaunch == 0) skip("the device has no cooperative launch");
  constexpr unsigned kBlock = 64;
  std::vector<std::uint32_t> x(o.size), y(o.size);
  for (std::uint32_t i = 0; i < o.size; ++i) x[i] = hash_word(i, 41);
  unsigned *dx = to_device(x), *dy = to_device(y), n = o.size;
  void* arguments[] = {&dx, &dy, &n};
  for (std::uint32_t r = 0; r < o.repeat; ++r) {
    HIP(hipLaunchCooperativeKernel(reinterpret_cast<void*>(two_phases), dim3(blocks(n, kBlock)), dim3(kBlock),
                                   arguments, 0, nullptr));
    for (std::uint32_t& value : x) value = value * 3 + 1;
  }
  for (std::uint32_t i = 0; i < n; ++i) y[i] = x[n - 1 - i];
  Verdict v;
  v.compare("x", to_host(dx, n), x);
  v.compare("y", to_host(dy, n), y);
  return v.finish();
}
