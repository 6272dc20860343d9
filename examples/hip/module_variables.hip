// SPDX-License-Identifier: Apache-2.0
// The kernel's only argument is a number: what it reads and writes is found through __constant__ and
// __device__ variables. One is a counter that every launch changes, and one is a table that the kernel
// updates in place.
#include "common.h"

using namespace example;

__constant__ unsigned coefficients[16];
__constant__ const unsigned* lookup;  // 4096 values in global memory
__device__ unsigned* output;
__device__ unsigned launches;
__device__ unsigned histogram[64];
__device__ const unsigned* alias = histogram;  // a variable's address in a variable: moves with the module

__global__ void through_variables(unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 0) atomicAdd(&launches, 1u);
  if (i >= n) return;
  const unsigned x = lookup[i % 4096] * coefficients[i % 16];
  output[i] = x;
  atomicAdd(const_cast<unsigned*>(alias) + x % 64, 1u);
}

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 13, 3);
  device();
  std::vector<std::uint32_t> c(16), table(4096);
  for (std::uint32_t i = 0; i < 16; ++i) c[i] = 2 * i + 1;
  for (std::uint32_t i = 0; i < 4096; ++i) table[i] = hash_word(i, 8);
  const std::uint32_t* dtable = to_device(table);
  std::uint32_t* out = to_device(std::vector<std::uint32_t>(o.size));
  HIP(hipMemcpyToSymbol(HIP_SYMBOL(coefficients), c.data(), sizeof(unsigned) * 16));
  HIP(hipMemcpyToSymbol(HIP_SYMBOL(lookup), &dtable, sizeof dtable));
  HIP(hipMemcpyToSymbol(HIP_SYMBOL(output), &out, sizeof out));
  std::vector<std::uint32_t> expected(o.size), bins(64);
  for (std::uint32_t r = 0; r < o.repeat; ++r) {
    through_variables<<<blocks(o.size, 256), 256>>>(o.size);
    LAUNCHED();
    for (std::uint32_t i = 0; i < o.size; ++i) {
      expected[i] = table[i % 4096] * c[i % 16];
      ++bins[expected[i] % 64];
    }
  }
  std::vector<std::uint32_t> count(1), got_bins(64);
  HIP(hipMemcpyFromSymbol(count.data(), HIP_SYMBOL(launches), sizeof(unsigned)));
  HIP(hipMemcpyFromSymbol(got_bins.data(), HIP_SYMBOL(histogram), sizeof(unsigned) * 64));
  Verdict v;
  v.compare("output", to_host(out, o.size), expected);
  v.compare("launches", count, {o.repeat});
  v.compare("histogram", got_bins, bins);
  return v.finish();
}
