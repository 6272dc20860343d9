// SPDX-License-Identifier: Apache-2.0
// Dynamic shared memory over 48 KiB, which the program has to ask for, function by function.
#include <algorithm>

#include "common.h"

using namespace example;

/// Each block sorts `n` words (a power of two) in shared memory: a bitonic sort.
__global__ void sort_in_shared(unsigned* values, unsigned n) {
  extern __shared__ unsigned words[];
  unsigned* mine = values + static_cast<size_t>(blockIdx.x) * n;
  for (unsigned i = threadIdx.x; i < n; i += blockDim.x) words[i] = mine[i];
  for (unsigned k = 2; k <= n; k *= 2)
    for (unsigned j = k / 2; j > 0; j /= 2) {
      __syncthreads();
      for (unsigned i = threadIdx.x; i < n; i += blockDim.x) {
        const unsigned other = i ^ j;
        if (other > i && (words[i] > words[other]) == ((i & k) == 0)) {
          const unsigned swap = words[i];
          words[i] = words[other];
          words[other] = swap;
        }
      }
    }
  __syncthreads();
  for (unsigned i = threadIdx.x; i < n; i += blockDim.x) mine[i] = words[i];
}

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 16, 1);  // --size: blocks
  constexpr unsigned kWords = 16384;           // 64 KiB
  constexpr int kBytes = kWords * 4;
  if (device().sharedMemPerBlockOptin < kBytes)
    skip("the device has less than 64 KiB of shared memory a block");
  std::vector<std::uint32_t> values(std::size_t{o.size} * kWords);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = hash_word(static_cast<std::uint32_t>(i), 10);
  std::uint32_t* d = to_device(values);
  CUDA(cudaFuncSetAttribute(sort_in_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  CUDA(cudaFuncSetAttribute(sort_in_shared, cudaFuncAttributePreferredSharedMemoryCarveout, 100));
  for (std::uint32_t r = 0; r < o.repeat; ++r) {
    sort_in_shared<<<o.size, 512, kBytes>>>(d, kWords);
    LAUNCHED();
  }
  for (std::size_t b = 0; b < o.size; ++b)
    std::sort(values.begin() + static_cast<std::ptrdiff_t>(b * kWords),
              values.begin() + static_cast<std::ptrdiff_t>((b + 1) * kWords));
  Verdict v;
  v.compare("values", to_host(d, values.size()), values);
  return v.finish();
}
