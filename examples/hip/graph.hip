// SPDX-License-Identifier: Apache-2.0
// Two kernels and a copy recorded from a stream into a graph that is launched several times.
#include "common.h"

using namespace example;

__global__ void graph_scale(unsigned* x, unsigned n, unsigned factor) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = x[i] * factor + 1;
}
__global__ void graph_mix(const unsigned* x, unsigned* y, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = y[i] ^ x[n - 1 - i];
}

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 12, 3);
  device();
  const std::size_t bytes = std::size_t{o.size} * 4;
  std::vector<std::uint32_t> x(o.size), y(o.size), copy(o.size);
  for (std::uint32_t i = 0; i < o.size; ++i) x[i] = hash_word(i, 37), y[i] = hash_word(i, 38);
  unsigned *dx = to_device(x), *dy = to_device(y), *dcopy = to_device(copy);
  hipStream_t stream;
  hipGraph_t graph;
  hipGraphExec_t executable;
  HIP(hipStreamCreate(&stream));
  HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  graph_scale<<<blocks(o.size, 256), 256, 0, stream>>>(dx, o.size, 5);
  graph_mix<<<blocks(o.size, 256), 256, 0, stream>>>(dx, dy, o.size);
  HIP(hipMemcpyAsync(dcopy, dy, bytes, hipMemcpyDeviceToDevice, stream));
  HIP(hipStreamEndCapture(stream, &graph));
  HIP(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
  for (std::uint32_t r = 0; r < o.repeat; ++r) {
    HIP(hipGraphLaunch(executable, stream));
    for (std::uint32_t& value : x) value = value * 5 + 1;
    for (std::uint32_t i = 0; i < o.size; ++i) y[i] ^= x[o.size - 1 - i];
  }
  HIP(hipStreamSynchronize(stream));
  Verdict v;
  v.compare("x", to_host(dx, o.size), x);
  v.compare("y", to_host(dy, o.size), y);
  v.compare("copy", to_host(dcopy, o.size), y);
  return v.finish();
}
