// SPDX-License-Identifier: Apache-2.0
// Matrix instructions of one warp or wave, on operands in registers. Each holds four fragments of A and four of B, of
// random values, and eight accumulators, so that neighbouring instructions differ in all three.
#pragma once
#include "calibrate_device.cuh"

// Each type: a fragment's words, accumulator and shape, and whether this device has it.
struct Mma {
  static constexpr bool kHas = false;
  static constexpr u32 kWave = 32, kM = 0, kN = 0, kK = 0;
  static constexpr int kA = 1, kB = 1;  // 32-bit words of a fragment in one thread
  struct D {
    u32 v;
  };
  static KLAB_INLINE void multiply(D&, const u32*, const u32*) {}
};
struct MmaF16 : Mma {};
struct MmaBf16 : Mma {};
struct MmaTf32 : Mma {};
struct MmaE4m3 : Mma {};
struct MmaInt8 : Mma {};
struct MmaF64 : Mma {};

#if !defined(__HIP__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define KLAB_MMA(Name, text, k, Element, constraint)                                                             \
  struct Name : Mma {                                                                                            \
    static constexpr bool kHas = true;                                                                           \
    static constexpr u32 kM = 16, kN = 8, kK = k;                                                                \
    static constexpr int kA = 4, kB = 2;                                                                         \
    struct D {                                                                                                   \
      Element v[4];                                                                                              \
    };                                                                                                           \
    static KLAB_INLINE void multiply(D& d, const u32* a, const u32* b) {                                         \
      asm volatile("mma.sync.aligned." text " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"   \
                   : constraint(d.v[0]), constraint(d.v[1]), constraint(d.v[2]), constraint(d.v[3])              \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                          \
    }                                                                                                            \
  }
namespace device_has {
KLAB_MMA(MmaF16, "m16n8k16.row.col.f32.f16.f16.f32", 16, float, "+f");
KLAB_MMA(MmaBf16, "m16n8k16.row.col.f32.bf16.bf16.f32", 16, float, "+f");
KLAB_MMA(MmaTf32, "m16n8k8.row.col.f32.tf32.tf32.f32", 8, float, "+f");
KLAB_MMA(MmaInt8, "m16n8k32.row.col.s32.s8.s8.s32", 32, int, "+r");
#if __CUDA_ARCH__ >= 890
KLAB_MMA(MmaE4m3, "m16n8k32.row.col.f32.e4m3.e4m3.f32", 32, float, "+f");
#else
using ::MmaE4m3;
#endif
struct MmaF64 : Mma {
  static constexpr bool kHas = true;
  static constexpr u32 kM = 16, kN = 8, kK = 16;
  static constexpr int kA = 16, kB = 8;
  struct D {
    double v[4];
  };
  static KLAB_INLINE double pair(const u32* w) { return __hiloint2double(static_cast<int>(w[1]), static_cast<int>(w[0])); }
  static KLAB_INLINE void multiply(D& d, const u32* a, const u32* b) {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7, %8, %9, %10, %11}, "
        "{%12, %13, %14, %15}, {%0, %1, %2, %3};"
        : "+d"(d.v[0]), "+d"(d.v[1]), "+d"(d.v[2]), "+d"(d.v[3])
        : "d"(pair(a)), "d"(pair(a + 2)), "d"(pair(a + 4)), "d"(pair(a + 6)), "d"(pair(a + 8)), "d"(pair(a + 10)),
          "d"(pair(a + 12)), "d"(pair(a + 14)), "d"(pair(b)), "d"(pair(b + 2)), "d"(pair(b + 4)), "d"(pair(b + 6)));
#else
    // The same product in the only shape there: two halves of eight rows, four quarters of the depth.
    for (int h = 0; h < 2; ++h)
      for (int q = 0; q < 4; ++q)
        asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                     : "+d"(d.v[2 * h]), "+d"(d.v[2 * h + 1])
                     : "d"(pair(a + 2 * (4 * h + q))), "d"(pair(b + 2 * q)));
#endif
  }
};
}  // namespace device_has
#undef KLAB_MMA
#elif defined(__HIP__)
#include "calibrate_matrix_amd.cuh"
#else
namespace device_has {
using ::MmaBf16, ::MmaE4m3, ::MmaF16, ::MmaF64, ::MmaInt8, ::MmaTf32;
}
#endif

template <class Type>
KLAB_INLINE void mma_all(const u32* operands, u32* out, const ComputePush& push) {
  constexpr int kFragments = sizeof(typename Type::D) > 16 ? 2 : 4, kSums = sizeof(typename Type::D) > 32 ? 4 : 8;
  if (push.iterations == 0)
    return tell(out, Type::kHas,
                2ull * Type::kM * Type::kN * Type::kK * (4 * kSums) * (KLAB_THREADS / Type::kWave), Type::kM,
                Type::kN, Type::kK);
  if constexpr (Type::kHas) {
    u32 a[kFragments][Type::kA], b[kFragments][Type::kB];
    const u32 mask = push.operand_words - 1;
    u32 at = (KLAB_BLOCK * KLAB_THREADS + KLAB_THREAD) * (kFragments * (Type::kA + Type::kB));
#pragma unroll
    for (int f = 0; f < kFragments; ++f) {
#pragma unroll
      for (int i = 0; i < Type::kA; ++i) a[f][i] = operands[at++ & mask];
#pragma unroll
      for (int i = 0; i < Type::kB; ++i) b[f][i] = operands[at++ & mask];
    }
    typename Type::D d[kSums] = {};
#pragma unroll 1
    for (u32 it = 0; it < push.iterations; ++it)
#pragma unroll
      for (int s = 0; s < 4; ++s)
#pragma unroll
        for (int j = 0; j < kSums; ++j)
          Type::multiply(d[j], a[(s + j) % kFragments], b[(s + j / kFragments) % kFragments]);
    u32 all = 0;
#pragma unroll
    for (int j = 0; j < kSums; ++j)
#pragma unroll
      for (unsigned w = 0; w < sizeof(typename Type::D) / 4; ++w) {
        u32 word;
        __builtin_memcpy(&word, reinterpret_cast<const char*>(&d[j]) + 4 * w, 4);
        all = (all << 1 | all >> 31) ^ word;
      }
    keep(out, push, all);
  }
}
