// SPDX-License-Identifier: Apache-2.0
// A kernel in one stream spins until the host sets a flag, which it does only after a kernel in another
// stream has ended: who waits for the whole device before that kernel waits for ever.
#include "common.h"

using namespace example;

__global__ void spin_meanwhile(volatile unsigned* flag) {
  while (*flag == 0) {
  }
}
__global__ void add_meanwhile(unsigned* x, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += i;
}

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 10, 1);
  device();
  unsigned* flag = nullptr;
  HIP(hipHostMalloc(&flag, 4096, hipHostMallocMapped | hipHostMallocCoherent));
  *flag = 0;
  std::vector<std::uint32_t> x(o.size, 7);
  unsigned* dx = to_device(x);
  hipStream_t busy, other;
  HIP(hipStreamCreateWithFlags(&busy, hipStreamNonBlocking));
  HIP(hipStreamCreateWithFlags(&other, hipStreamNonBlocking));
  spin_meanwhile<<<1, 1, 0, busy>>>(flag);
  LAUNCHED();
  for (std::uint32_t r = 0; r < o.repeat; ++r) {
    add_meanwhile<<<blocks(o.size, 64), 64, 0, other>>>(dx, o.size);
    LAUNCHED();
    for (std::uint32_t i = 0; i < o.size; ++i) x[i] += i;
  }
  HIP(hipStreamSynchronize(other));
  __atomic_store_n(flag, 1u, __ATOMIC_RELEASE);
  HIP(hipStreamSynchronize(busy));
  Verdict v;
  v.compare("x", to_host(dx, o.size), x);
  return v.finish();
}
