// SPDX-License-Identifier: Apache-2.0
// Hopper's warpgroup matrix instructions on operands in shared memory: two warpgroups a block, one block a
// multiprocessor, m64n256 each. Rows are 128 bytes in the 128-byte-swizzle layout. The stages hold different random
// values: what an instruction draws, and with it the clock, depends on them.
// wgmma_all moves nothing while it runs: no matrix product can do that, and it is a ceiling. wgmma_fed_all brings each
// stage from the last-level cache by bulk copies, as a product must that keeps 128 x 256 sums a block.
#pragma once
#include "calibrate_memory.cuh"

constexpr u32 kStageRows = 384, kStageBytes = kStageRows * 128, kStages = 4;  // 128 rows of A, 256 of B
constexpr u32 kDepthSteps = 4;       // of 32 bytes, in a stage
constexpr u32 kIterationsASum = 32;  // then the sums start anew, as those of a matrix product do

struct WgmmaF16 {
  using Sum = float;
  static constexpr u32 kK = 16;
};
struct WgmmaBf16 : WgmmaF16 {};
struct WgmmaTf32 {
  using Sum = float;
  static constexpr u32 kK = 8;
};
struct WgmmaE4m3 {
  using Sum = float;
  static constexpr u32 kK = 32;
};
struct WgmmaInt8 {
  using Sum = int;
  static constexpr u32 kK = 32;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define KLAB_128_OPERANDS \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, " \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, " \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define KLAB_4(c, d, i) c(d[i]), c(d[i + 1]), c(d[i + 2]), c(d[i + 3])
#define KLAB_16(c, d, i) KLAB_4(c, d, i), KLAB_4(c, d, i + 4), KLAB_4(c, d, i + 8), KLAB_4(c, d, i + 12)
#define KLAB_64(c, d, i) KLAB_16(c, d, i), KLAB_16(c, d, i + 16), KLAB_16(c, d, i + 32), KLAB_16(c, d, i + 48)
#define KLAB_WGMMA(Name, text, flags, Element, constraint)                                               \
  KLAB_INLINE void wgmma(Name, Element (&d)[128], u64 a, u64 b, u32 add) {                               \
    asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %130, 0;\n wgmma.mma_async.sync.aligned." text      \
                 " {" KLAB_128_OPERANDS "}, %128, %129, p" flags ";\n}"                                  \
                 : KLAB_64(constraint, d, 0), KLAB_64(constraint, d, 64)                                 \
                 : "l"(a), "l"(b), "r"(add));                                                            \
  }
KLAB_WGMMA(WgmmaF16, "m64n256k16.f32.f16.f16", ", 1, 1, 0, 0", float, "+f")
KLAB_WGMMA(WgmmaBf16, "m64n256k16.f32.bf16.bf16", ", 1, 1, 0, 0", float, "+f")
KLAB_WGMMA(WgmmaTf32, "m64n256k8.f32.tf32.tf32", ", 1, 1", float, "+f")
KLAB_WGMMA(WgmmaE4m3, "m64n256k32.f32.e4m3.e4m3", ", 1, 1", float, "+f")
KLAB_WGMMA(WgmmaInt8, "m64n256k32.s32.s8.s8", "", int, "+r")
#undef KLAB_WGMMA

/// Shared-memory matrix descriptor, K-major with 128-byte swizzle: groups of eight rows lie 1024 bytes apart.
KLAB_INLINE u64 matrix_descriptor(u32 address) {
  return static_cast<u64>((address & 0x3ffff) >> 4) | u64{1} << 16 | u64{1024 >> 4} << 32 | u64{1} << 62;
}
#endif

/// A thread's sums folded into one word. The warps that only move data are not counted among the threads.
template <class Sum>
KLAB_INLINE void keep_sums(const Sum (&d)[128], u32* out, const ComputePush& push) {
  u32 all = 0;
#pragma unroll
  for (int i = 0; i < 128; ++i) {
    u32 word;
    __builtin_memcpy(&word, &d[i], 4);
    all = (all << 1 | all >> 31) ^ word;
  }
  if (push.report != 0)
    out[(KLAB_BLOCK * 256 + KLAB_THREAD) % 65536] = all;
  else if (all == push.seed)
    out[0] = all;
}

template <class Type>
KLAB_INLINE void wgmma_all(const Vec4* operands, u32* out, const ComputePush& push, unsigned char* raw) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  if (push.iterations == 0)
    return tell(out, true, 2ull * 128 * 256 * Type::kK * kDepthSteps * kStages, 64, 256, Type::kK);
  const u32 start = shared_address(raw), base = (start + 1023u) & ~1023u;
  Vec4* stages = reinterpret_cast<Vec4*>(raw + (base - start));
  for (u32 i = KLAB_THREAD; i < kStages * kStageBytes / 16; i += KLAB_THREADS)
    stages[i] = operands[(i + KLAB_BLOCK * 64u) & (push.operand_words / 4 - 1)];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  const u64 a0 = matrix_descriptor(base + KLAB_THREAD / 128 * (64 * 128)), b0 = matrix_descriptor(base + 128 * 128);
  typename Type::Sum d[128];
#pragma unroll
  for (int i = 0; i < 128; ++i) d[i] = 0;
#pragma unroll 1
  for (u32 it = 0; it < push.iterations; ++it) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (u32 s = 0; s < kStages; ++s)
#pragma unroll
      for (u32 k = 0; k < kDepthSteps; ++k) {
        const u64 at = (s * kStageBytes + k * 32) >> 4;
        wgmma(Type{}, d, a0 + at, b0 + at, s + k != 0 ? 1u : it % kIterationsASum);
      }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
  keep_sums(d, out, push);
#else
  (void)operands, (void)raw;
  if (push.iterations == 0) tell(out, false, 0);
#endif
}

/// 288 threads: the ninth warp brings the stages, two warpgroups use them. operands: chunks of a stage each.
template <class Type>
KLAB_INLINE void wgmma_fed_all(const unsigned char* operands, u32* out, const ComputePush& push, unsigned char* raw) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __shared__ alignas(8) u64 full[kStages], empty[kStages];
  if (push.iterations == 0)
    return tell(out, true, 2ull * 128 * 256 * Type::kK * kDepthSteps * kStages, 64, 256, Type::kK);
  const u32 base = (shared_address(raw) + 1023u) & ~1023u;
  if (KLAB_THREAD == 0) {
    for (u32 s = 0; s < kStages; ++s) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&full[s])) : "memory");
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 2;" ::"r"(shared_address(&empty[s])) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  if (KLAB_THREAD >= 256) {
    if (KLAB_THREAD != 256) return;
    const u32 chunks = push.operand_words / (kStageBytes / 4);
    u32 chunk = KLAB_BLOCK * kStages % chunks;
#pragma unroll 1
    for (u32 it = 0; it < push.iterations; ++it)
#pragma unroll
      for (u32 s = 0; s < kStages; ++s) {
        if (it != 0) barrier_wait(shared_address(&empty[s]), (it - 1) & 1u);
        bulk_load(base + s * kStageBytes, operands + static_cast<u64>(chunk) * kStageBytes, kStageBytes,
                  shared_address(&full[s]));
        if (++chunk == chunks) chunk = 0;
      }
    return;
  }
  const u64 a0 = matrix_descriptor(base + KLAB_THREAD / 128 * (64 * 128)), b0 = matrix_descriptor(base + 128 * 128);
  typename Type::Sum d[128];
#pragma unroll
  for (int i = 0; i < 128; ++i) d[i] = 0;
#pragma unroll 1
  for (u32 it = 0; it < push.iterations; ++it)
#pragma unroll
    for (u32 s = 0; s < kStages; ++s) {
      barrier_wait(shared_address(&full[s]), it & 1u);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
      for (u32 k = 0; k < kDepthSteps; ++k) {
        const u64 at = (s * kStageBytes + k * 32) >> 4;
        wgmma(Type{}, d, a0 + at, b0 + at, s + k != 0 ? 1u : it % kIterationsASum);
      }
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      // The stage before is used up when no more than the newest group is under way.
      asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
      if ((it != 0 || s != 0) && KLAB_THREAD % 128 == 0)
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(
                         shared_address(&empty[(s + kStages - 1) % kStages]))
                     : "memory");
    }
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  keep_sums(d, out, push);
#else
  (void)operands, (void)raw;
  if (push.iterations == 0) tell(out, false, 0);
#endif
}
