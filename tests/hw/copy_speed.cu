// SPDX-License-Identifier: Apache-2.0
// What this machine's copies reach: device to pinned host, host to device, device to device, a kernel's
// reading. The numbers that captures and restores are held against. One line of JSON; --mib is the size of
// one copy.
#include <algorithm>

#include "common.h"

using namespace example;

__global__ void read_all(const uint4* __restrict__ x, std::size_t n, unsigned* out) {
  unsigned sum = 0;
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
       i += std::size_t{gridDim.x} * blockDim.x) {
    const uint4 q = x[i];
    sum += q.x ^ q.y ^ q.z ^ q.w;
  }
  if (sum == 0x12345678u) *out = sum;
}

template <class F>
double gigabytes_per_second(std::size_t bytes, const F& copy) {
  cudaEvent_t begin, end;
  CUDA(cudaEventCreate(&begin));
  CUDA(cudaEventCreate(&end));
  float best = 0;
  for (int r = 0; r < 6; ++r) {
    CUDA(cudaEventRecord(begin));
    copy();
    CUDA(cudaEventRecord(end));
    CUDA(cudaEventSynchronize(end));
    float ms = 0;
    CUDA(cudaEventElapsedTime(&ms, begin, end));
    if (r > 0) best = std::max(best, static_cast<float>(static_cast<double>(bytes) / 1e6 / ms));
  }
  return best;
}

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1, 1, {}, {{"--mib", 1024}});
  const cudaDeviceProp& properties = device();
  const std::size_t bytes = std::size_t{o.numbers.at("--mib")} << 20;
  auto* a = allocate<unsigned char>(bytes);
  auto* b = allocate<unsigned char>(bytes);
  unsigned* out = allocate<unsigned>(1);
  void* host = nullptr;
  CUDA(cudaMallocHost(&host, bytes));
  CUDA(cudaMemset(a, 0x3c, bytes));
  const double d2h =
      gigabytes_per_second(bytes, [&] { CUDA(cudaMemcpyAsync(host, a, bytes, cudaMemcpyDeviceToHost)); });
  const double h2d =
      gigabytes_per_second(bytes, [&] { CUDA(cudaMemcpyAsync(a, host, bytes, cudaMemcpyHostToDevice)); });
  const double d2d =
      gigabytes_per_second(bytes, [&] { CUDA(cudaMemcpyAsync(b, a, bytes, cudaMemcpyDeviceToDevice)); });
  const double read = gigabytes_per_second(bytes, [&] {
    read_all<<<properties.multiProcessorCount * 8, 512>>>(reinterpret_cast<const uint4*>(a), bytes / 16, out);
    LAUNCHED();
  });
  std::printf(
      "{\"device\": \"%s\", \"mib\": %u, \"pinned_d2h_gb_s\": %.2f, \"pinned_h2d_gb_s\": %.2f, "
      "\"d2d_bytes_gb_s\": %.1f, \"read_gb_s\": %.1f}\n",
      properties.name, o.numbers.at("--mib"), d2h, h2d, d2d, read);
  return 0;
}
