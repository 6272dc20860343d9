// SPDX-License-Identifier: Apache-2.0
// Klab's kernels for CUDA and HIP. Interface: kernels.h; how they are launched (grid, second pass): gpu/builtin_plan.
// A hash takes two passes: `lanes` of several blocks add up shares of a chunk, then one warp a chunk finishes.
#if defined(__HIP__)
#include "hip_device.cuh"
#endif
#include "cuda_arithmetic.h"

using namespace klab::kernels::cuda;

namespace {

constexpr int kThreads = 256;

struct HashChunk {
  u32 offset, size;
};
struct HashAddressChunk {
  u64 address;
  u32 size, reserved;
};
struct HashPush {
  u32 count, first;
};
struct ComparePush {
  u32 a_offset, b_offset, size, result;
};
struct CompareResult {
  u32 differing, first;
};
struct ValuesResult {
  u32 beyond, first, different, reserved;
};
struct FlushPush {
  u32 words, value;
};
struct PoisonPush {
  u32 offset, size, low, high;
};
struct PatchPush {
  u32 count, back;
};
struct ClockPush {
  u32 first;
};

__device__ Quad add(Quad a, Quad b) { return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }

__device__ Quad warp_sum(Quad v) {
  for (int step = 16; step > 0; step >>= 1) {
    v.x += __shfl_down_sync(0xffffffffu, v.x, step);
    v.y += __shfl_down_sync(0xffffffffu, v.y, step);
    v.z += __shfl_down_sync(0xffffffffu, v.z, step);
    v.w += __shfl_down_sync(0xffffffffu, v.w, step);
  }
  return v;
}

/// Grid: x shares of a chunk, y groups of kTogether chunks (strided).
template <class Get>
__device__ void hash_groups(Get get, Quad* partial, u32 count) {
  __shared__ Quad warps[kTogether][kThreads / 32];
  const u32 shares = gridDim.x, groups = (count + kTogether - 1) / kTogether;
  for (u32 group = blockIdx.y; group < groups; group += gridDim.y) {
    const u32 number = group * kTogether;
    const int here = static_cast<int>(min(count - number, static_cast<u32>(kTogether)));
    Chunk chunks[kTogether];
    Quad sums[kTogether];
#pragma unroll
    for (int c = 0; c < kTogether; ++c) {
      sums[c] = {0, 0, 0, 0};
      chunks[c] = get(number + min(c, here - 1));
    }
    hash_share(chunks, here, blockIdx.x * kThreads + threadIdx.x, shares * kThreads, sums);
#pragma unroll
    for (int c = 0; c < kTogether; ++c) {
      const Quad sum = warp_sum(sums[c]);
      if (threadIdx.x % 32 == 0) warps[c][threadIdx.x / 32] = sum;
    }
    __syncthreads();
    if (threadIdx.x < kTogether && static_cast<int>(threadIdx.x) < here) {
      Quad sum{0, 0, 0, 0};
      for (int w = 0; w < kThreads / 32; ++w) sum = add(sum, warps[threadIdx.x][w]);
      partial[static_cast<u64>(number + threadIdx.x) * shares + blockIdx.x] = sum;
    }
    __syncthreads();
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads)
    klab_hash(const unsigned char* data, const HashChunk* chunks, Quad* partial, HashPush push) {
  hash_groups(
      [=](u32 i) {
        const HashChunk c = chunks[push.first + i];
        return Chunk{data + c.offset, c.size};
      },
      partial, push.count);
}

extern "C" __global__ void __launch_bounds__(kThreads)
    klab_hash_address(const HashAddressChunk* chunks, Quad* partial, HashPush push) {
  hash_groups(
      [=](u32 i) {
        const HashAddressChunk c = chunks[push.first + i];
        return Chunk{reinterpret_cast<const unsigned char*>(c.address), c.size};
      },
      partial, push.count);
}

/// One warp a chunk. `stride`, `size_at`: bytes, where a chunk's size stands in the list.
extern "C" __global__ void __launch_bounds__(kThreads)
    klab_hash_finish(const unsigned char* chunks, u32 stride, u32 size_at, const Quad* partial, u32 shares,
                     Quad* results, HashPush push) {
  const u32 warp = (blockIdx.x * kThreads + threadIdx.x) / 32, lane = threadIdx.x % 32;
  for (u32 i = warp; i < push.count; i += gridDim.x * (kThreads / 32)) {
    Quad sum{0, 0, 0, 0};
    for (u32 s = lane; s < shares; s += 32) sum = add(sum, partial[static_cast<u64>(i) * shares + s]);
    sum = warp_sum(sum);
    if (lane != 0) continue;
    const u64 element = push.first + static_cast<u64>(i);
    results[element] = finish(sum, *reinterpret_cast<const u32*>(chunks + element * stride + size_at));
  }
}

extern "C" __global__ void __launch_bounds__(kThreads)
    klab_compare(const unsigned char* a, const unsigned char* b, CompareResult* results, ComparePush push) {
  u32 count = 0, first = 0xffffffffu;
  compare_share(a + push.a_offset, b + push.b_offset, push.size, blockIdx.x * kThreads + threadIdx.x,
                gridDim.x * kThreads, count, first);
  for (int step = 16; step > 0; step >>= 1) {
    count += __shfl_down_sync(0xffffffffu, count, step);
    first = min(first, __shfl_down_sync(0xffffffffu, first, step));
  }
  if (threadIdx.x % 32 != 0 || count == 0) return;
  atomicAdd(&results[push.result].differing, count);
  atomicMin(&results[push.result].first, first);
}

extern "C" __global__ void __launch_bounds__(kThreads)
    klab_compare_values(const unsigned char* actual, const unsigned char* expected, ValuesResult* results, Values push) {
  u32 beyond = 0, first = 0xffffffffu, different = 0;
  values_share(actual, expected, push, blockIdx.x * kThreads + threadIdx.x, gridDim.x * kThreads, beyond, first,
               different);
  for (int step = 16; step > 0; step >>= 1) {
    beyond += __shfl_down_sync(0xffffffffu, beyond, step);
    different += __shfl_down_sync(0xffffffffu, different, step);
    first = min(first, __shfl_down_sync(0xffffffffu, first, step));
  }
  if (threadIdx.x % 32 != 0 || different == 0) return;
  atomicAdd(&results[push.result].beyond, beyond);
  atomicAdd(&results[push.result].different, different);
  atomicMin(&results[push.result].first, first);
}

extern "C" __global__ void __launch_bounds__(kThreads) klab_flush(u32* data, FlushPush push) {
  flush_share(data, push.words, push.value, blockIdx.x * kThreads + threadIdx.x, gridDim.x * kThreads);
}

extern "C" __global__ void __launch_bounds__(kThreads)
    klab_poison(unsigned char* data, const unsigned char* mask, PoisonPush push) {
  poison_share(data + push.offset, mask, push.size, push.low, push.high, blockIdx.x * kThreads + threadIdx.x,
               gridDim.x * kThreads);
}

extern "C" __global__ void __launch_bounds__(kThreads) klab_patch(const PatchEntry* entries, PatchPush push) {
  for (u32 i = blockIdx.x * kThreads + threadIdx.x; i < push.count; i += gridDim.x * kThreads)
    patch_one(entries[i], push.back != 0);
}

#if !defined(__HIP__)
/// Cycles and nanoseconds of each multiprocessor, by whichever of its blocks comes last.
extern "C" __global__ void __launch_bounds__(kThreads) klab_clock(ulonglong2* readings, ClockPush push) {
  if (threadIdx.x != 0) return;
  u32 processor;
  u64 cycles, nanoseconds;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(processor));
  if (processor >= 512) return;
  asm volatile("mov.u64 %0, %%clock64;\n\tmov.u64 %1, %%globaltimer;" : "=l"(cycles), "=l"(nanoseconds));
  readings[push.first + processor] = make_ulonglong2(cycles, nanoseconds);
}

/// Holds the stream until the host has queued what follows: ends when *flag reaches `value`, or after `limit_ns`.
extern "C" __global__ void klab_gate(const volatile u32* flag, u32 value, u64 limit_ns) {
  u64 start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do {
    if (static_cast<int>(*flag - value) >= 0) return;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - start < limit_ns);
}

#else

/// Bytes from one place to another; they do not overlap.
extern "C" __global__ void __launch_bounds__(kThreads)
    klab_copy(unsigned char* to, const unsigned char* from, u64 size) {
  copy_share(to, from, size, blockIdx.x * u64{kThreads} + threadIdx.x, gridDim.x * u64{kThreads});
}

extern "C" __global__ void __launch_bounds__(kThreads) klab_fill(u32* to, u64 value, u64 size) {
  for (u64 i = blockIdx.x * u64{kThreads} + threadIdx.x; i < size / 4; i += gridDim.x * u64{kThreads})
    to[i] = static_cast<u32>(value);
}

// Those after them meet in memory.
#if defined(__gfx900__) || defined(__gfx906__) || defined(__gfx908__) || defined(__GFX10__) || \
    defined(__gfx1010__) || defined(__gfx1030__) || defined(__gfx1031__) || defined(__gfx1032__)
/// Tells the barrier of a cooperative launch how many blocks there are besides one.
extern "C" __global__ void klab_gws_init(u32 others) { __builtin_amdgcn_ds_gws_init(others, 0); }
#endif
#endif
