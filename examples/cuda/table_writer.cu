// SPDX-License-Identifier: Apache-2.0
// A kernel that reads all over a large table (--table-gib) and writes 64 MiB in the middle of it: restoring
// the table before each replay would cost many times what the kernel takes.
#include "common.h"

using namespace example;

constexpr std::size_t kWindowWords = 16u << 20;  // 64 MiB

__device__ __host__ inline unsigned table_word(unsigned long long i) {
  unsigned x = static_cast<unsigned>(i) * 0x9e3779b9u + static_cast<unsigned>(i >> 32) * 0x85ebca6bu;
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return (x ^ (x >> 16)) | 0x80000000u;  // no two of them look like an address
}

__global__ void fill_table(unsigned* table, unsigned long long n) {
  for (unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    table[i] = table_word(i);
}

/// Where word i of the window reads from: not the window itself.
__device__ __host__ inline unsigned long long source_of(unsigned i, unsigned long long words,
                                                        unsigned long long first, unsigned window,
                                                        unsigned turn) {
  const unsigned long long j = (i * 1103515245ull + turn * 12345ull) * 64 % (words - window) + i % 16;
  const unsigned long long k = j < words - window ? j : i % 16;
  return k < first ? k : k + window;
}

__global__ void write_window(unsigned* table, unsigned long long words, unsigned long long first,
                             unsigned window, unsigned turn) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < window) table[first + i] = table[source_of(i, words, first, window, turn)] * 3 + i + turn;
}

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1, 2, {}, {{"--table-gib", 8}});
  const cudaDeviceProp& properties = device();
  const std::size_t words = std::size_t{o.numbers.at("--table-gib")} << 28;
  if (words * 4 > properties.totalGlobalMem / 10 * 9) skip("the table is larger than the device's memory");
  unsigned* table = allocate<unsigned>(words);
  fill_table<<<properties.multiProcessorCount * 8, 256>>>(table, words);
  LAUNCHED();
  const std::size_t first = words / 2;
  std::vector<std::uint32_t> expected(kWindowWords);
  for (std::uint32_t r = 0; r < o.repeat; ++r) {
    write_window<<<blocks(kWindowWords, 256), 256>>>(table, words, first, static_cast<unsigned>(kWindowWords),
                                                     r);
    LAUNCHED();
  }
  CUDA(cudaDeviceSynchronize());
  const unsigned turn = o.repeat - 1;
  for (std::uint32_t i = 0; i < kWindowWords; ++i)
    expected[i] = table_word(source_of(i, words, first, kWindowWords, turn)) * 3 + i + turn;
  Verdict v;
  v.compare("window", to_host(table + first, kWindowWords), expected);
  return v.finish();
}
