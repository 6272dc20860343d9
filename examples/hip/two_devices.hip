// SPDX-License-Identifier: Apache-2.0
// The first two devices by turns, each with memory, stream and values of its own: an odd execution is on the first.
#include "common.h"

using namespace example;

__global__ void on_each_device(unsigned* x, unsigned n, unsigned addend) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = x[i] * 3 + addend;
}

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 12, 2);
  (void)device();
  int count = 0;
  HIP(hipGetDeviceCount(&count));
  if (count < 2) skip("one device only");
  struct Part {
    unsigned* x = nullptr;
    hipStream_t stream = nullptr;
    std::vector<unsigned> expected;
  } parts[2];
  for (int d = 0; d < 2; ++d) {
    Part& p = parts[d];
    HIP(hipSetDevice(d));
    HIP(hipStreamCreate(&p.stream));
    for (unsigned i = 0; i < o.size; ++i) p.expected.push_back(hash_word(i, static_cast<unsigned>(d)));
    p.x = to_device(p.expected);
  }
  for (unsigned r = 0; r < o.repeat; ++r)
    for (unsigned d = 0; d < 2; ++d) {
      Part& p = parts[d];
      HIP(hipSetDevice(static_cast<int>(d)));
      on_each_device<<<blocks(o.size, 256), 256, 0, p.stream>>>(p.x, o.size, 10 * d + r);
      LAUNCHED();
      for (unsigned& x : p.expected) x = x * 3 + 10 * d + r;
    }
  Verdict v;
  for (int d = 0; d < 2; ++d) {
    HIP(hipSetDevice(d));
    HIP(hipStreamSynchronize(parts[d].stream));
    v.compare(d == 0 ? "x of the first" : "x of the second", to_host(parts[d].x, o.size), parts[d].expected);
  }
  return v.finish();
}
