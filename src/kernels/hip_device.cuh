// SPDX-License-Identifier: Apache-2.0
// What klab.cu needs of CUDA's language, for AMD GPUs by clang's builtins: no header and no library of ROCm.
// Blocks are kThreads in x.
#pragma once

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))

namespace klab::kernels::hip {

constexpr unsigned kBlock = 256;
struct Index {
  unsigned x, y;
};

__device__ __forceinline__ unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
__device__ __forceinline__ int min(int a, int b) { return a < b ? a : b; }

/// Of 32 threads beside each other, which are a wave, or half of one. Only what comes from inside of them means anything.
__device__ __forceinline__ unsigned shuffle_down(unsigned value, unsigned step) {
  const unsigned thread = __builtin_amdgcn_workitem_id_x();
#if defined(__AMDGCN_WAVEFRONT_SIZE)
  constexpr unsigned wave = __AMDGCN_WAVEFRONT_SIZE;
#else
  const unsigned wave = __builtin_amdgcn_wavefrontsize();
#endif
  const unsigned from = ((thread + step) & 31u) | (thread & 32u & (wave - 1));
  return static_cast<unsigned>(__builtin_amdgcn_ds_bpermute(static_cast<int>(from * 4), static_cast<int>(value)));
}

__device__ __forceinline__ void synchronise() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

}  // namespace klab::kernels::hip

using klab::kernels::hip::min;
#define threadIdx (klab::kernels::hip::Index{__builtin_amdgcn_workitem_id_x(), 0})
#define blockIdx (klab::kernels::hip::Index{__builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y()})
#define gridDim                                                                            \
  (klab::kernels::hip::Index{__builtin_amdgcn_grid_size_x() / klab::kernels::hip::kBlock, \
                             __builtin_amdgcn_grid_size_y()})
#define __syncthreads() klab::kernels::hip::synchronise()
#define __shfl_down_sync(mask, value, step) klab::kernels::hip::shuffle_down(value, static_cast<unsigned>(step))
#define atomicAdd(p, v) __hip_atomic_fetch_add(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)
#define atomicMin(p, v) __hip_atomic_fetch_min(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)
