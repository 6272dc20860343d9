// SPDX-License-Identifier: Apache-2.0
// y = a*x + y: two buffers and two numbers, the plainest launch.
#include "common.h"
#include "saxpy_kernel.h"

using namespace example;

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 14, 3);
  device();
  const std::vector<float> x = noise_vector(o.size, 1);
  std::vector<float> y = noise_vector(o.size, 2);
  float *dx = to_device(x), *dy = to_device(y);
  for (std::uint32_t r = 0; r < o.repeat; ++r) {
    saxpy<<<blocks(o.size, 256), 256>>>(dx, dy, 0.5f, o.size);
    LAUNCHED();
    for (std::uint32_t i = 0; i < o.size; ++i) y[i] += 0.5f * x[i];
  }
  Verdict v;
  v.compare("y", to_host(dy, o.size), y);
  return v.finish();
}
