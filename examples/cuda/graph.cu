// SPDX-License-Identifier: Apache-2.0
// Kernels that are launched as nodes of a graph, several times: recorded from two streams that fork and join
// (default), or built node by node (--explicit).
#include "common.h"

using namespace example;

__global__ void graph_fill(unsigned* x, unsigned n, unsigned seed) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = x[i] * 5 + i + seed;
}
__global__ void graph_mix(const unsigned* x, unsigned* y, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] ^ (x[n - 1 - i] >> 3);
}
__global__ void graph_join(const unsigned* x, const unsigned* y, unsigned* z, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] += x[i] + y[i];
}

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 18, 3, {"--explicit"});
  device();
  unsigned n = o.size;
  const unsigned grid = blocks(n, 256);
  std::vector<std::uint32_t> a(n, 1), b(n, 2), y(n), z(n);
  unsigned *da = to_device(a), *db = to_device(b), *dy = to_device(y), *dz = to_device(z);
  cudaStream_t main_stream, side;
  CUDA(cudaStreamCreateWithFlags(&main_stream, cudaStreamNonBlocking));
  CUDA(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  cudaGraph_t graph;
  unsigned seed_a = 17, seed_b = 40;
  if (!o.has("--explicit")) {
    cudaEvent_t fork, join;
    CUDA(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    CUDA(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
    CUDA(cudaStreamBeginCapture(main_stream, cudaStreamCaptureModeGlobal));
    CUDA(cudaEventRecord(fork, main_stream));
    CUDA(cudaStreamWaitEvent(side, fork, 0));
    graph_fill<<<grid, 256, 0, main_stream>>>(da, n, seed_a);
    graph_fill<<<grid, 256, 0, side>>>(db, n, seed_b);
    graph_mix<<<grid, 256, 0, side>>>(db, dy, n);
    CUDA(cudaEventRecord(join, side));
    CUDA(cudaStreamWaitEvent(main_stream, join, 0));
    graph_join<<<grid, 256, 0, main_stream>>>(da, dy, dz, n);
    CUDA(cudaStreamEndCapture(main_stream, &graph));
  } else {
    CUDA(cudaGraphCreate(&graph, 0));
    auto node = [&](void* kernel, void** arguments, std::initializer_list<cudaGraphNode_t> after) {
      cudaKernelNodeParams p{};
      p.func = kernel;
      p.gridDim = dim3(grid);
      p.blockDim = dim3(256);
      p.kernelParams = arguments;
      cudaGraphNode_t made;
      CUDA(cudaGraphAddKernelNode(&made, graph, after.begin(), after.size(), &p));
      return made;
    };
    void* fill_a[] = {&da, &n, &seed_a};
    void* fill_b[] = {&db, &n, &seed_b};
    void* mix[] = {&db, &dy, &n};
    void* join[] = {&da, &dy, &dz, &n};
    const cudaGraphNode_t first = node(reinterpret_cast<void*>(graph_fill), fill_a, {});
    const cudaGraphNode_t second = node(reinterpret_cast<void*>(graph_fill), fill_b, {});
    const cudaGraphNode_t third = node(reinterpret_cast<void*>(graph_mix), mix, {second});
    node(reinterpret_cast<void*>(graph_join), join, {first, third});
  }
  cudaGraphExec_t ready;
  CUDA(cudaGraphInstantiate(&ready, graph, 0));
  for (std::uint32_t r = 0; r < o.repeat; ++r) {
    CUDA(cudaGraphLaunch(ready, main_stream));
    for (std::uint32_t i = 0; i < n; ++i) a[i] = a[i] * 5 + i + seed_a, b[i] = b[i] * 5 + i + seed_b;
    for (std::uint32_t i = 0; i < n; ++i) y[i] = b[i] ^ (b[n - 1 - i] >> 3);
    for (std::uint32_t i = 0; i < n; ++i) z[i] += a[i] + y[i];
  }
  CUDA(cudaStreamSynchronize(main_stream));
  Verdict v;
  v.compare("a", to_host(da, n), a);
  v.compare("y", to_host(dy, n), y);
  v.compare("z", to_host(dz, n), z);
  return v.finish();
}
