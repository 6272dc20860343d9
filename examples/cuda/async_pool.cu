// SPDX-License-Identifier: Apache-2.0
// Stream-ordered allocation: blocks come from the default pool and from one of the program's own, are freed
// and handed out again at the same addresses while launches that use them are still under way.
#include "common.h"

using namespace example;

__global__ void pool_fill(unsigned* x, unsigned n, unsigned seed) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = i * 2654435761u + seed;
}
__global__ void pool_fold(const unsigned* x, unsigned* sum, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) sum[i] = sum[i] * 3 + x[i];
}

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 17, 6);
  if (device().memoryPoolsSupported == 0) skip("the device has no memory pools");
  cudaStream_t stream;
  CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  cudaMemPool_t pool;
  CUDA(cudaMemPoolCreate(&pool, &properties));
  const std::size_t bytes = std::size_t{o.size} * 4;
  unsigned* sum = nullptr;
  CUDA(cudaMallocFromPoolAsync(reinterpret_cast<void**>(&sum), bytes, pool, stream));
  CUDA(cudaMemsetAsync(sum, 0, bytes, stream));
  std::vector<std::uint32_t> expected(o.size);
  for (std::uint32_t r = 0; r < o.repeat; ++r) {
    unsigned *x = nullptr, *gap = nullptr;
    if (r % 2 == 1) CUDA(cudaMallocAsync(reinterpret_cast<void**>(&gap), bytes * r, stream));
    CUDA(cudaMallocAsync(reinterpret_cast<void**>(&x), bytes, stream));
    pool_fill<<<blocks(o.size, 256), 256, 0, stream>>>(x, o.size, r);
    LAUNCHED();
    pool_fold<<<blocks(o.size, 256), 256, 0, stream>>>(x, sum, o.size);
    LAUNCHED();
    CUDA(cudaFreeAsync(x, stream));
    if (gap != nullptr) CUDA(cudaFreeAsync(gap, stream));
    for (std::uint32_t i = 0; i < o.size; ++i) expected[i] = expected[i] * 3 + i * 2654435761u + r;
  }
  std::vector<std::uint32_t> got(o.size);
  CUDA(cudaMemcpyAsync(got.data(), sum, bytes, cudaMemcpyDeviceToHost, stream));
  CUDA(cudaFreeAsync(sum, stream));
  CUDA(cudaStreamSynchronize(stream));
  CUDA(cudaMemPoolDestroy(pool));
  Verdict v;
  v.compare("sum", got, expected);
  return v.finish();
}
