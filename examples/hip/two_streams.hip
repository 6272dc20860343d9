// SPDX-License-Identifier: Apache-2.0
// Two threads, each with its own stream and its own buffers, launching as fast as they can: taking one
// dispatch out of one stream must neither wait for the other for ever nor see its half-written memory.
#include <thread>

#include "common.h"

using namespace example;

__global__ void stream_rotate(unsigned* x, unsigned n, unsigned turn) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = ((x[i] << 5) | (x[i] >> 27)) + turn;
}
__global__ void stream_noise(unsigned* x, unsigned n, unsigned turn) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = x[i] * 1664525u + 1013904223u + turn;
}

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 12, 30);
  device();
  std::vector<std::uint32_t> a(o.size), b(std::size_t{o.size} * 4);
  for (std::uint32_t i = 0; i < a.size(); ++i) a[i] = hash_word(i, 15);
  for (std::uint32_t i = 0; i < b.size(); ++i) b[i] = hash_word(i, 16);
  unsigned *da = to_device(a), *db = to_device(b);
  auto work = [&](bool first) {
    HIP(hipSetDevice(0));
    hipStream_t stream;
    HIP(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    for (std::uint32_t r = 0; r < o.repeat; ++r) {
      if (first)
        stream_rotate<<<blocks(a.size(), 256), 256, 0, stream>>>(da, static_cast<unsigned>(a.size()), r);
      else
        stream_noise<<<blocks(b.size(), 256), 256, 0, stream>>>(db, static_cast<unsigned>(b.size()), r);
      LAUNCHED();
    }
    HIP(hipStreamSynchronize(stream));
  };
  std::thread other(work, false);
  work(true);
  other.join();
  for (std::uint32_t r = 0; r < o.repeat; ++r) {
    for (std::uint32_t& x : a) x = ((x << 5) | (x >> 27)) + r;
    for (std::uint32_t& x : b) x = x * 1664525u + 1013904223u + r;
  }
  Verdict v;
  v.compare("a", to_host(da, a.size()), a);
  v.compare("b", to_host(db, b.size()), b);
  return v.finish();
}
