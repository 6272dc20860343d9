// SPDX-License-Identifier: Apache-2.0
// Programmatic dependent launch: the second kernel may start before the first has ended and waits for its
// results itself.
#include "common.h"

using namespace example;

__global__ void primary_produce(unsigned* x, unsigned n, unsigned turn) {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = x[i] * 3 + turn;
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}
__global__ void secondary_consume(const unsigned* x, unsigned* y, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
  if (i < n) y[i] += x[i] ^ i;
}

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 18, 4);
  device(9);
  const std::uint32_t n = o.size;
  std::vector<std::uint32_t> x(n, 1), y(n);
  unsigned *dx = to_device(x), *dy = to_device(y);
  cudaStream_t stream;
  CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cudaLaunchConfig_t launch{};
  launch.gridDim = dim3(blocks(n, 256));
  launch.blockDim = dim3(256);
  launch.stream = stream;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  launch.attrs = &attribute;
  launch.numAttrs = 1;
  for (std::uint32_t r = 0; r < o.repeat; ++r) {
    CUDA(
        cudaLaunchKernelEx(&launch, primary_produce, dx, static_cast<unsigned>(n), static_cast<unsigned>(r)));
    CUDA(cudaLaunchKernelEx(&launch, secondary_consume, static_cast<const unsigned*>(dx), dy,
                            static_cast<unsigned>(n)));
    for (std::uint32_t i = 0; i < n; ++i) x[i] = x[i] * 3 + r, y[i] += x[i] ^ i;
  }
  CUDA(cudaStreamSynchronize(stream));
  Verdict v;
  v.compare("x", to_host(dx, n), x);
  v.compare("y", to_host(dy, n), y);
  return v.finish();
}
