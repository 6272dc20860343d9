// SPDX-License-Identifier: Apache-2.0
// c = a * transposed b on Hopper's warpgroup matrix instructions, fed by the tensor memory accelerator:
// tensor maps are passed by value, tiles arrive in swizzled dynamic shared memory, an mbarrier says when.
// --cluster launches pairs of blocks as clusters. The values are small multiples of 1/8, so every sum is
// exact. Sides are multiples of 64.
#include <cuda.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "common.h"

using namespace example;

constexpr unsigned kTile = 64;  // rows, columns and depth of a tile; 64 halves are 128 bytes
constexpr unsigned kTileBytes = kTile * kTile * 2;

// Shared-memory matrix descriptor, K-major with 128-byte swizzle: rows lie 128 bytes apart, groups of eight
// 1024.
__device__ std::uint64_t matrix_descriptor(std::uint32_t shared_address) {
  return static_cast<std::uint64_t>((shared_address & 0x3ffff) >> 4) | (std::uint64_t{1} << 16) |
         (std::uint64_t{1024 >> 4} << 32) | (std::uint64_t{1} << 62);
}

// sum += a tile * transposed b tile over 16 of their depth. Only compute capability 9.0 with its `a` features
// has it.
__device__ void multiply_add(float (&d)[32], std::uint64_t a, std::uint64_t b) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "%32, %33, 1, 1, 1, 0, 0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]),
        "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
        "+f"(d[30]), "+f"(d[31])
      : "l"(a), "l"(b));
#else
  (void)d, (void)a, (void)b;
  __trap();
#endif
}

__global__ void __launch_bounds__(128)
    matmul_wgmma(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                 float* __restrict__ c, unsigned n) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ unsigned char raw[];
  __shared__ alignas(8) std::uint64_t barrier;
  // The swizzle pattern repeats every 1024 bytes, so tiles must start at a multiple of that.
  const std::uint32_t base = (static_cast<std::uint32_t>(__cvta_generic_to_shared(raw)) + 1023u) & ~1023u;
  const std::uint32_t tile_a = base, tile_b = base + kTileBytes;
  const std::uint32_t bar = static_cast<std::uint32_t>(__cvta_generic_to_shared(&barrier));
  const int row = static_cast<int>(blockIdx.y * kTile), column = static_cast<int>(blockIdx.x * kTile);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();

  float d[32] = {};
  std::uint32_t phase = 0;
  for (int k = 0; k < static_cast<int>(n); k += kTile, phase ^= 1) {
    if (threadIdx.x == 0) {
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(2 * kTileBytes)
                   : "memory");
      asm volatile(
          "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
          "%3}], [%4];" ::"r"(tile_a),
          "l"(&map_a), "r"(k), "r"(row), "r"(bar)
          : "memory");
      asm volatile(
          "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
          "%3}], [%4];" ::"r"(tile_b),
          "l"(&map_b), "r"(k), "r"(column), "r"(bar)
          : "memory");
    }
    std::uint32_t done = 0;
    while (done == 0)
      asm volatile(
          "{\n .reg .pred p;\n mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n selp.u32 %0, 1, 0, "
          "p;\n}"
          : "=r"(done)
          : "r"(bar), "r"(phase)
          : "memory");
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (unsigned i = 0; i < kTile / 16; ++i)
      multiply_add(d, matrix_descriptor(tile_a + i * 32), matrix_descriptor(tile_b + i * 32));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    __syncthreads();  // all four warps have read the tiles
  }
  // The accumulator's layout: warp w has rows 16w .. 16w+15; a thread has two columns of every eight, in two
  // rows.
  const unsigned lane = threadIdx.x % 32, r = row + threadIdx.x / 32 * 16 + lane / 4,
                 q = column + lane % 4 * 2;
  for (unsigned j = 0; j < 8; ++j) {
    float* upper = c + static_cast<std::size_t>(r) * n + q + 8 * j;
    float* lower = upper + static_cast<std::size_t>(8) * n;
    upper[0] = d[4 * j], upper[1] = d[4 * j + 1];
    lower[0] = d[4 * j + 2], lower[1] = d[4 * j + 3];
  }
#else
  (void)map_a, (void)map_b, (void)c, (void)n;
  __trap();
#endif
}

CUtensorMap tensor_map(const half* data, std::size_t n) {
  const auto encode = driver_function<decltype(&cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled");
  CUtensorMap map;
  const cuuint64_t sides[2] = {n, n}, pitch[1] = {n * sizeof(half)};
  const cuuint32_t box[2] = {kTile, kTile}, steps[2] = {1, 1};
  DRIVER(encode(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, const_cast<half*>(data), sides, pitch, box, steps,
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  return map;
}

int main(int argc, char** argv) {
  const Options o = parse(argc, argv, 512, 1, {"--cluster"});
  if (device(9).major != 9) skip("its matrix instructions are those of compute capability 9.0 only");
  const std::size_t n = (o.size + 127) / 128 * 128;
  const std::vector<float> a = noise_vector(n * n, 6, 8), b = noise_vector(n * n, 7, 8);
  std::vector<half> ha(n * n), hb(n * n);
  std::transform(a.begin(), a.end(), ha.begin(), [](float x) { return __float2half(x); });
  std::transform(b.begin(), b.end(), hb.begin(), [](float x) { return __float2half(x); });
  const half *da = to_device(ha), *db = to_device(hb);
  float* dc = to_device(std::vector<float>(n * n));
  const CUtensorMap map_a = tensor_map(da, n), map_b = tensor_map(db, n);

  cudaLaunchConfig_t launch{};
  launch.gridDim = dim3(static_cast<unsigned>(n / kTile), static_cast<unsigned>(n / kTile));
  launch.blockDim = dim3(128);
  launch.dynamicSmemBytes = 2 * kTileBytes + 1024;
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = 2;
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  launch.attrs = &cluster;
  launch.numAttrs = o.has("--cluster") ? 1 : 0;
  for (std::uint32_t r = 0; r < o.repeat; ++r)
    CUDA(cudaLaunchKernelEx(&launch, matmul_wgmma, map_a, map_b, dc, static_cast<unsigned>(n)));

  const std::vector<float> c = to_host(dc, n * n);
  const std::size_t step = std::max<std::size_t>(1, n / 128);
  std::vector<float> got, expected;
  for (std::size_t i = 0; i < n; i += step)
    for (std::size_t j = i / step % step; j < n; j += step) {
      float sum = 0;
      for (std::size_t k = 0; k < n; ++k) sum += a[i * n + k] * b[j * n + k];
      got.push_back(c[i * n + j]);
      expected.push_back(sum);
    }
  Verdict v;
  v.compare("c at the lattice", got, expected);
  v.add(c.data(), c.size() * sizeof(float));
  return v.finish();
}
