// SPDX-License-Identifier: Apache-2.0
// The matrix instructions of AMD's GPUs: MFMA of CDNA (waves of 64), WMMA of RDNA 3 (waves of 32).
// Operands are random words, so which element lies where does not matter here.
typedef float Float16x __attribute__((ext_vector_type(16)));
typedef float Float8 __attribute__((ext_vector_type(8)));
typedef int Int16x __attribute__((ext_vector_type(16)));
typedef int Int8x __attribute__((ext_vector_type(8)));
typedef int Int4x __attribute__((ext_vector_type(4)));
typedef double Double4 __attribute__((ext_vector_type(4)));
typedef _Float16 Half4 __attribute__((ext_vector_type(4)));
typedef short Short4 __attribute__((ext_vector_type(4)));
typedef _Float16 Half16 __attribute__((ext_vector_type(16)));
typedef short Short16 __attribute__((ext_vector_type(16)));
typedef float Float2 __attribute__((ext_vector_type(2)));

template <class To>
KLAB_INLINE To words_as(const u32* w) {
  To v;
  __builtin_memcpy(&v, w, sizeof v);
  return v;
}

#define KLAB_MATRIX(Name, wave, m, n, k, a_words, b_words, Sum, call)              \
  struct Name : Mma {                                                             \
    static constexpr bool kHas = true;                                            \
    static constexpr u32 kWave = wave, kM = m, kN = n, kK = k;                    \
    static constexpr int kA = a_words, kB = b_words;                              \
    struct D {                                                                    \
      Sum v;                                                                      \
    };                                                                            \
    static KLAB_INLINE void multiply(D& d, const u32* a, const u32* b) { call; }  \
  }

namespace device_has {
#if defined(__gfx90a__) || defined(__gfx942__)
KLAB_MATRIX(MmaF16, 64, 32, 32, 8, 2, 2, Float16x,
            d.v = __builtin_amdgcn_mfma_f32_32x32x8f16(words_as<Half4>(a), words_as<Half4>(b), d.v, 0, 0, 0));
KLAB_MATRIX(MmaBf16, 64, 32, 32, 8, 2, 2, Float16x,
            d.v = __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(words_as<Short4>(a), words_as<Short4>(b), d.v, 0, 0, 0));
KLAB_MATRIX(MmaF64, 64, 16, 16, 4, 2, 2, Double4,
            d.v = __builtin_amdgcn_mfma_f64_16x16x4f64(words_as<double>(a), words_as<double>(b), d.v, 0, 0, 0));
#if defined(__gfx942__)
KLAB_MATRIX(MmaInt8, 64, 32, 32, 16, 2, 2, Int16x,
            d.v = __builtin_amdgcn_mfma_i32_32x32x16_i8(words_as<long>(a), words_as<long>(b), d.v, 0, 0, 0));
KLAB_MATRIX(MmaE4m3, 64, 32, 32, 16, 2, 2, Float16x,
            d.v = __builtin_amdgcn_mfma_f32_32x32x16_fp8_fp8(words_as<long>(a), words_as<long>(b), d.v, 0, 0, 0));
KLAB_MATRIX(MmaTf32, 64, 32, 32, 4, 2, 2, Float16x,
            d.v = __builtin_amdgcn_mfma_f32_32x32x4_xf32(words_as<Float2>(a), words_as<Float2>(b), d.v, 0, 0, 0));
#else
KLAB_MATRIX(MmaInt8, 64, 32, 32, 8, 1, 1, Int16x,
            d.v = __builtin_amdgcn_mfma_i32_32x32x8i8(words_as<int>(a), words_as<int>(b), d.v, 0, 0, 0));
using ::MmaE4m3, ::MmaTf32;
#endif
#elif defined(__gfx1100__) || defined(__gfx1101__) || defined(__gfx1102__) || defined(__gfx1103__) || \
    defined(__gfx1150__) || defined(__gfx1151__)
KLAB_MATRIX(MmaF16, 32, 16, 16, 16, 8, 8, Float8,
            d.v = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(words_as<Half16>(a), words_as<Half16>(b), d.v));
KLAB_MATRIX(MmaBf16, 32, 16, 16, 16, 8, 8, Float8,
            d.v = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(words_as<Short16>(a), words_as<Short16>(b), d.v));
KLAB_MATRIX(MmaInt8, 32, 16, 16, 16, 4, 4, Int8x,
            d.v = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, words_as<Int4x>(a), true, words_as<Int4x>(b), d.v,
                                                             false));
using ::MmaE4m3, ::MmaF64, ::MmaTf32;
#else
using ::MmaBf16, ::MmaE4m3, ::MmaF16, ::MmaF64, ::MmaInt8, ::MmaTf32;
#endif
}  // namespace device_has
#undef KLAB_MATRIX
