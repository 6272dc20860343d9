// SPDX-License-Identifier: Apache-2.0
// Chains of dependent multiply-adds, x = x * multiplier + addend: enough of them a thread that none waits.
#pragma once
#include "calibrate_device.cuh"

constexpr int kChains = 8, kSteps = 16;  // kCalibrationChains, kCalibrationSteps

struct Fp64 {
  using Value = double;
  static constexpr u32 kOperations = 2;  // of one step
  static KLAB_INLINE Value from(float v) { return v; }
  static KLAB_INLINE Value step(Value x, Value m, Value a) { return __builtin_fma(x, m, a); }
  static KLAB_INLINE u32 bits(Value v) {
    const u64 b = __builtin_bit_cast(u64, v);
    return static_cast<u32>(b) ^ static_cast<u32>(b >> 32);
  }
};
struct Fp32 {
  using Value = float;
  static constexpr u32 kOperations = 2;
  static KLAB_INLINE Value from(float v) { return v; }
  static KLAB_INLINE Value step(Value x, Value m, Value a) { return __builtin_fmaf(x, m, a); }
  static KLAB_INLINE u32 bits(Value v) { return bits_of(v); }
};
struct Int32 {
  using Value = u32;
  static constexpr u32 kOperations = 2;
  static KLAB_INLINE Value from(float v) { return bits_of(v) | 1u; }
  static KLAB_INLINE Value step(Value x, Value m, Value a) { return x * m + a; }
  static KLAB_INLINE u32 bits(Value v) { return v; }
};
#if defined(__HIP__)
typedef _Float16 Half2 __attribute__((ext_vector_type(2)));
struct Fp16 {
  using Value = Half2;
  static constexpr u32 kOperations = 4;
  static KLAB_INLINE Value from(float v) { return Half2{static_cast<_Float16>(v), static_cast<_Float16>(v)}; }
  static KLAB_INLINE Value step(Value x, Value m, Value a) {
#if __has_builtin(__builtin_elementwise_fma)
    return __builtin_elementwise_fma(x, m, a);
#else
#pragma clang fp contract(fast)
    return x * m + a;
#endif
  }
  static KLAB_INLINE u32 bits(Value v) { return __builtin_bit_cast(u32, v); }
};
// Four products and their sum, as the names of the instructions differ by generation.
struct Int8 {
  using Value = u32;
  static constexpr u32 kOperations = 8;
  static KLAB_INLINE Value from(float v) { return bits_of(v) | 0x01010101u; }
  static KLAB_INLINE Value step(Value x, Value m, Value a) {
#if defined(__gfx1100__) || defined(__gfx1101__) || defined(__gfx1102__) || defined(__gfx1103__) || \
    defined(__gfx1150__) || defined(__gfx1151__) || defined(__gfx1200__) || defined(__gfx1201__)
    return static_cast<u32>(__builtin_amdgcn_sudot4(true, static_cast<int>(m), true, static_cast<int>(a),
                                                    static_cast<int>(x), false));
#else
    return static_cast<u32>(
        __builtin_amdgcn_sdot4(static_cast<int>(m), static_cast<int>(a), static_cast<int>(x), false));
#endif
  }
  static KLAB_INLINE u32 bits(Value v) { return v; }
};
#else
struct Fp16 {
  using Value = __half2;
  static constexpr u32 kOperations = 4;
  static KLAB_INLINE Value from(float v) { return __float2half2_rn(v); }
  static KLAB_INLINE Value step(Value x, Value m, Value a) { return __hfma2(x, m, a); }
  static KLAB_INLINE u32 bits(Value v) { return *reinterpret_cast<u32*>(&v); }
};
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define KLAB_HAS_BF16 1
struct Bf16 {
  using Value = __nv_bfloat162;
  static constexpr u32 kOperations = 4;
  static KLAB_INLINE Value from(float v) { return __float2bfloat162_rn(v); }
  static KLAB_INLINE Value step(Value x, Value m, Value a) { return __hfma2(x, m, a); }
  static KLAB_INLINE u32 bits(Value v) { return *reinterpret_cast<u32*>(&v); }
};
#endif
struct Int8 {
  using Value = u32;
  static constexpr u32 kOperations = 8;
  static KLAB_INLINE Value from(float v) { return bits_of(v) | 0x01010101u; }
  static KLAB_INLINE Value step(Value x, Value m, Value a) {
    return static_cast<u32>(__dp4a(static_cast<int>(m), static_cast<int>(a), static_cast<int>(x)));
  }
  static KLAB_INLINE u32 bits(Value v) { return v; }
};
#endif

template <class Type>
KLAB_INLINE void vector_all(u32* out, const ComputePush& push) {
  using Value = typename Type::Value;
  if (push.iterations == 0)
    return tell(out, true, static_cast<u64>(Type::kOperations) * kChains * kSteps * KLAB_THREADS);
  const Value m = Type::from(push.multiplier), a = Type::from(push.addend);
  Value x[kChains];
#pragma unroll
  for (int c = 0; c < kChains; ++c)
    x[c] = Type::from(static_cast<float>(KLAB_THREAD % 64u + static_cast<u32>(c)) * 0.0625f);
#pragma unroll 1
  for (u32 i = 0; i < push.iterations; ++i)
#pragma unroll
    for (int s = 0; s < kSteps; ++s)
#pragma unroll
      for (int c = 0; c < kChains; ++c) x[c] = Type::step(x[c], m, a);
  u32 all = 0;
#pragma unroll
  for (int c = 0; c < kChains; ++c) all = (all << 1 | all >> 31) ^ Type::bits(x[c]);
  keep(out, push, all);
}
