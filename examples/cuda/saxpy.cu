// SPDX-License-Identifier: Apache-2.0
// y = a*x + y: two buffers and two numbers, the plainest launch there is.
#include "common.h"
#include "saxpy_kernel.cuh"

using namespace example;

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 20, 1);
  device();
  const std::vector<float> x = noise_vector(o.size, 1);
  std::vector<float> expected = noise_vector(o.size, 2);
  float *dx = to_device(x), *dy = to_device(expected);
  const float a = 0.5f;
  for (std::uint32_t r = 0; r < o.repeat; ++r) {
    saxpy<<<blocks(o.size, 256), 256>>>(o.size, a, dx, dy);
    LAUNCHED();
    // Exact, so fused or not makes no difference: multiples of 2^-11 that stay below 2^12.
    for (std::uint32_t i = 0; i < o.size; ++i) expected[i] = a * x[i] + expected[i];
  }
  Verdict v;
  v.compare("y", to_host(dy, o.size), expected);
  return v.finish();
}
