// SPDX-License-Identifier: Apache-2.0
// A private array that is indexed by data: it lives in scratch memory, which no argument leads to.
#include "common.h"

using namespace example;

constexpr unsigned kPrivate = 64;

__global__ void shuffle_private(const unsigned* x, unsigned* y, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned values[kPrivate];
  for (unsigned k = 0; k < kPrivate; ++k) values[k] = x[(i + k) % n];
  unsigned at = x[i] % kPrivate, sum = 0;
  for (unsigned step = 0; step < 16; ++step) {
    sum = sum * 31 + values[at];
    values[at] += step;
    at = values[at] % kPrivate;
  }
  y[i] = sum;
}

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 10, 1);
  device();
  std::vector<std::uint32_t> x(o.size), y(o.size);
  for (std::uint32_t i = 0; i < o.size; ++i) x[i] = hash_word(i, 31);
  unsigned *dx = to_device(x), *dy = allocate<unsigned>(o.size);
  for (std::uint32_t r = 0; r < o.repeat; ++r) {
    shuffle_private<<<blocks(o.size, 64), 64>>>(dx, dy, o.size);
    LAUNCHED();
  }
  for (std::uint32_t i = 0; i < o.size; ++i) {
    unsigned values[kPrivate];
    for (unsigned k = 0; k < kPrivate; ++k) values[k] = x[(i + k) % o.size];
    unsigned at = x[i] % kPrivate, sum = 0;
    for (unsigned step = 0; step < 16; ++step) {
      sum = sum * 31 + values[at];
      values[at] += step;
      at = values[at] % kPrivate;
    }
    y[i] = sum;
  }
  Verdict v;
  v.compare("y", to_host(dy, o.size), y);
  return v.finish();
}
