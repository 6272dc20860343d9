// SPDX-License-Identifier: Apache-2.0
// A cooperative launch: all blocks wait for each other between the steps of one kernel.
#include <cooperative_groups.h>

#include <algorithm>

#include "common.h"

using namespace example;

__global__ void smooth_steps(unsigned* x, unsigned* y, unsigned n, unsigned steps) {
  const auto grid = cooperative_groups::this_grid();
  for (unsigned s = 0; s < steps; ++s) {
    for (unsigned i = static_cast<unsigned>(grid.thread_rank()); i < n;
         i += static_cast<unsigned>(grid.size()))
      y[i] = x[i] + (x[(i + 1) % n] >> 1) + (x[(i + n - 1) % n] >> 2);
    grid.sync();
    unsigned* const swap = x;
    x = y;
    y = swap;
  }
}

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 16, 2);
  if (device(6).cooperativeLaunch == 0) skip("the device has no cooperative launches");
  int per_processor = 0;
  CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_processor, smooth_steps, 256, 0));
  const unsigned grid = std::min(32u, static_cast<unsigned>(per_processor * device().multiProcessorCount));
  std::vector<std::uint32_t> x(o.size), y(o.size);
  for (std::uint32_t i = 0; i < o.size; ++i) x[i] = hash_word(i, 9);
  std::uint32_t *dx = to_device(x), *dy = to_device(y);
  unsigned n = o.size, steps = 6;  // even: the result is in x again
  for (std::uint32_t r = 0; r < o.repeat; ++r) {
    void* arguments[] = {&dx, &dy, &n, &steps};
    CUDA(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(smooth_steps), dim3(grid), dim3(256), arguments,
                                     0, nullptr));
    for (unsigned s = 0; s < steps; ++s) {
      for (std::uint32_t i = 0; i < n; ++i) y[i] = x[i] + (x[(i + 1) % n] >> 1) + (x[(i + n - 1) % n] >> 2);
      std::swap(x, y);
    }
  }
  Verdict v;
  v.compare("x", to_host(dx, n), x);
  v.compare("y", to_host(dy, n), y);
  return v.finish();
}
