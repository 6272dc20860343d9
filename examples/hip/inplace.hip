// SPDX-License-Identifier: Apache-2.0
// x = x*3 + 1 several times: reads what it writes. The second half of the buffer is never touched.
#include "common.h"

using namespace example;

__global__ void scale_in_place(unsigned* x, unsigned n, unsigned factor, unsigned addend) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = x[i] * factor + addend;
}

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 14, 5);
  device();
  std::vector<std::uint32_t> x(2 * std::size_t{o.size});
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = hash_word(static_cast<std::uint32_t>(i));
  std::uint32_t* dx = to_device(x);
  for (std::uint32_t r = 0; r < o.repeat; ++r) {
    scale_in_place<<<blocks(o.size, 256), 256>>>(dx, o.size, 3, r + 1);
    LAUNCHED();
    for (std::uint32_t i = 0; i < o.size; ++i) x[i] = x[i] * 3 + r + 1;
  }
  Verdict v;
  v.compare("x", to_host(dx, x.size()), x);
  return v.finish();
}
