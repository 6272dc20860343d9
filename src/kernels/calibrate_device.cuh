// SPDX-License-Identifier: Apache-2.0
// The little that calibrate.cu needs of CUDA or HIP. HIP needs no header of its own here: clang's builtins do.
// The structs are those of calibration.h.
#pragma once

using u32 = unsigned int;
using u64 = unsigned long long;

#if defined(__HIP__)
#ifndef __global__
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#endif
#define KLAB_THREAD __builtin_amdgcn_workitem_id_x()
#define KLAB_THREADS __builtin_amdgcn_workgroup_size_x()
#define KLAB_BLOCK __builtin_amdgcn_workgroup_id_x()
#define KLAB_BLOCKS (__builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x())
using Vec1 = u32;
typedef u32 Vec2 __attribute__((ext_vector_type(2)));
typedef u32 Vec4 __attribute__((ext_vector_type(4)));
#else
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define KLAB_THREAD threadIdx.x
#define KLAB_THREADS blockDim.x
#define KLAB_BLOCK blockIdx.x
#define KLAB_BLOCKS gridDim.x
using Vec1 = u32;
using Vec2 = uint2;
using Vec4 = uint4;
#endif

#define KLAB_INLINE __device__ __forceinline__

struct MemoryPush {
  u32 tiles, passes, shift, report, value;
  float scale;
};
struct ComputePush {
  u32 iterations, report, operand_words, seed;
  float multiplier, addend;
};

KLAB_INLINE u32 bits_of(float v) { return __builtin_bit_cast(u32, v); }
KLAB_INLINE float float_of(u32 v) { return __builtin_bit_cast(float, v); }

KLAB_INLINE void add_to(u32* p, u32 v) {
#if defined(__HIP__)
  __hip_atomic_fetch_add(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
#else
  atomicAdd(p, v);
#endif
}

/// CalibrationFacts, by one thread of the grid.
KLAB_INLINE void tell(u32* out, bool supported, u64 work, u32 m = 0, u32 n = 0, u32 k = 0) {
  if (KLAB_BLOCK != 0 || KLAB_THREAD != 0) return;
  out[0] = supported ? 1 : 0;
  out[1] = static_cast<u32>(work);
  out[2] = static_cast<u32>(work >> 32);
  out[3] = m;
  out[4] = n;
  out[5] = k;
}

/// Keeps a result alive: it is stored where it is asked for, or when it has a value that it never has.
KLAB_INLINE void keep(u32* out, const ComputePush& push, u32 value) {
  const u32 thread = KLAB_BLOCK * KLAB_THREADS + KLAB_THREAD;
  if (push.report != 0)
    out[thread % 65536] = value;
  else if (value == push.seed)
    out[0] = value;
}
