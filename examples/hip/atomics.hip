// SPDX-License-Identifier: Apache-2.0
// Atomics of 32 and 64 bits on a histogram that is not cleared between launches: right whatever the order of
// threads.
#include "common.h"

using namespace example;

__global__ void count_values(const unsigned* x, unsigned* bins, unsigned long long* sum, unsigned* most,
                             unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  atomicAdd(&bins[x[i] % 64], 1u);
  atomicAdd(sum, static_cast<unsigned long long>(x[i]));
  atomicMax(most, x[i]);
}

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 13, 2);
  device();
  std::vector<std::uint32_t> x(o.size), bins(64), most(1);
  std::vector<unsigned long long> sum(1);
  for (std::uint32_t i = 0; i < o.size; ++i) x[i] = hash_word(i, 33);
  unsigned *dx = to_device(x), *dbins = to_device(bins), *dmost = to_device(most);
  unsigned long long* dsum = to_device(sum);
  for (std::uint32_t r = 0; r < o.repeat; ++r) {
    count_values<<<blocks(o.size, 256), 256>>>(dx, dbins, dsum, dmost, o.size);
    LAUNCHED();
    for (std::uint32_t value : x) {
      ++bins[value % 64];
      sum[0] += value;
      most[0] = value > most[0] ? value : most[0];
    }
  }
  Verdict v;
  v.compare("bins", to_host(dbins, 64), bins);
  v.compare("sum", to_host(dsum, 1), sum);
  v.compare("most", to_host(dmost, 1), most);
  return v.finish();
}
