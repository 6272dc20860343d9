// SPDX-License-Identifier: Apache-2.0
// A histogram whose bins are spread over the shared memory of a cluster of four blocks.
#include <cooperative_groups.h>

#include "common.h"

using namespace example;

constexpr unsigned kCluster = 4, kBinsOfBlock = 512, kBins = kCluster * kBinsOfBlock;

__global__ void cluster_histogram(const unsigned* __restrict__ values, unsigned n, unsigned* bins) {
#if __CUDA_ARCH__ >= 900
  __shared__ unsigned mine[kBinsOfBlock];
  const auto cluster = cooperative_groups::this_cluster();
  for (unsigned i = threadIdx.x; i < kBinsOfBlock; i += blockDim.x) mine[i] = 0;
  cluster.sync();
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    const unsigned bin = values[i] % kBins;
    atomicAdd(cluster.map_shared_rank(mine, bin / kBinsOfBlock) + bin % kBinsOfBlock, 1u);
  }
  cluster.sync();
  const unsigned first = cluster.block_rank() * kBinsOfBlock;
  for (unsigned i = threadIdx.x; i < kBinsOfBlock; i += blockDim.x) atomicAdd(bins + first + i, mine[i]);
#else
  (void)values, (void)n, (void)bins;
  __trap();
#endif
}

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 1 << 20, 2);
  device(9);
  std::vector<std::uint32_t> values(o.size), expected(kBins);
  for (std::uint32_t i = 0; i < o.size; ++i) values[i] = hash_word(i, 21) >> 5;
  const std::uint32_t* d = to_device(values);
  std::uint32_t* bins = to_device(std::vector<std::uint32_t>(kBins));
  cudaLaunchConfig_t launch{};
  launch.gridDim = dim3(16 * kCluster);
  launch.blockDim = dim3(256);
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = kCluster;
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  launch.attrs = &attribute;
  launch.numAttrs = 1;
  for (std::uint32_t r = 0; r < o.repeat; ++r) {
    CUDA(cudaLaunchKernelEx(&launch, cluster_histogram, d, static_cast<unsigned>(o.size), bins));
    for (std::uint32_t x : values) ++expected[x % kBins];
  }
  Verdict v;
  v.compare("bins", to_host(bins, kBins), expected);
  return v.finish();
}
