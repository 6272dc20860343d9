// SPDX-License-Identifier: Apache-2.0
// The kernels that measure what a device can attain, for CUDA and HIP. Interface: calibration.h. Each tells its facts
// when it is asked for no work, so that a kernel whose instructions this device lacks can say so.
#include "calibrate_matrix.cuh"
#include "calibrate_memory.cuh"
#include "calibrate_vector.cuh"
#if !defined(__HIP__)
#include "calibrate_wgmma.cuh"
#endif

#define KLAB_KERNEL(threads) extern "C" __global__ void __launch_bounds__(threads)

#define KLAB_MEMORY(width, V, wide, narrow)                                                                   \
  KLAB_KERNEL(1024) klab_calibrate_read_##width(const void* a, u32* out, MemoryPush push) {                   \
    read_all<V, wide, Hint::streaming>(a, out, push);                                                         \
  }                                                                                                           \
  KLAB_KERNEL(1024) klab_calibrate_cache_##width(const void* a, u32* out, MemoryPush push) {                  \
    read_all<V, wide, Hint::cached>(a, out, push);                                                            \
  }                                                                                                           \
  KLAB_KERNEL(1024) klab_calibrate_write_##width(void* a, u32* out, MemoryPush push) {                        \
    write_all<V, wide>(a, out, push);                                                                         \
  }                                                                                                           \
  KLAB_KERNEL(1024) klab_calibrate_copy_##width(void* a, const void* b, u32* out, MemoryPush push) {          \
    copy_all<V, wide>(a, b, out, push);                                                                       \
  }                                                                                                           \
  KLAB_KERNEL(1024)                                                                                           \
  klab_calibrate_triad_##width(void* a, const void* b, const void* c, u32* out, MemoryPush push) {            \
    triad_all<V, narrow>(a, b, c, out, push);                                                                 \
  }
KLAB_MEMORY(4, Vec1, 8, 8)
KLAB_MEMORY(8, Vec2, 8, 8)
KLAB_MEMORY(16, Vec4, 8, 4)
KLAB_MEMORY(32, Vec8, 4, 2)

KLAB_KERNEL(1024) klab_calibrate_fill(void* a, u32* out, MemoryPush push) { fill_all(a, out, push); }
KLAB_KERNEL(1024) klab_calibrate_empty(u32* out, MemoryPush push) {
  if (push.tiles == 0) tell(out, true, 0);
}

#define KLAB_VECTOR(name, Type) \
  KLAB_KERNEL(1024) klab_calibrate_##name(u32* out, ComputePush push) { vector_all<Type>(out, push); }
KLAB_VECTOR(fp64, Fp64)
KLAB_VECTOR(fp32, Fp32)
KLAB_VECTOR(fp16, Fp16)
KLAB_VECTOR(int8, Int8)
KLAB_VECTOR(int32, Int32)
KLAB_KERNEL(1024) klab_calibrate_bf16(u32* out, ComputePush push) {
#if defined(KLAB_HAS_BF16)
  vector_all<Bf16>(out, push);
#else
  if (push.iterations == 0) tell(out, false, 0);
#endif
}

#define KLAB_MATRIX_KERNEL(name, Type)                                                         \
  KLAB_KERNEL(256) klab_calibrate_mma_##name(const u32* operands, u32* out, ComputePush push) { \
    mma_all<device_has::Type>(operands, out, push);                                            \
  }
KLAB_MATRIX_KERNEL(f16, MmaF16)
KLAB_MATRIX_KERNEL(bf16, MmaBf16)
KLAB_MATRIX_KERNEL(tf32, MmaTf32)
KLAB_MATRIX_KERNEL(e4m3, MmaE4m3)
KLAB_MATRIX_KERNEL(int8, MmaInt8)
KLAB_MATRIX_KERNEL(f64, MmaF64)

#if !defined(__HIP__)
#define KLAB_WGMMA_KERNEL(name, Type)                                                                \
  extern "C" __global__ void __launch_bounds__(256, 1)                                              \
      klab_calibrate_wgmma_##name(const Vec4* operands, u32* out, ComputePush push) {               \
    extern __shared__ unsigned char raw[];                                                          \
    wgmma_all<Type>(operands, out, push, raw);                                                      \
  }
#define KLAB_WGMMA_FED_KERNEL(name, Type)                                                              \
  extern "C" __global__ void __launch_bounds__(288, 1)                                                \
      klab_calibrate_wgmma_fed_##name(const unsigned char* operands, u32* out, ComputePush push) {    \
    extern __shared__ unsigned char raw[];                                                            \
    wgmma_fed_all<Type>(operands, out, push, raw);                                                    \
  }
KLAB_WGMMA_FED_KERNEL(f16, WgmmaF16)
KLAB_WGMMA_FED_KERNEL(bf16, WgmmaBf16)
KLAB_WGMMA_FED_KERNEL(tf32, WgmmaTf32)
KLAB_WGMMA_FED_KERNEL(e4m3, WgmmaE4m3)
KLAB_WGMMA_FED_KERNEL(int8, WgmmaInt8)
KLAB_WGMMA_KERNEL(f16, WgmmaF16)
KLAB_WGMMA_KERNEL(bf16, WgmmaBf16)
KLAB_WGMMA_KERNEL(tf32, WgmmaTf32)
KLAB_WGMMA_KERNEL(e4m3, WgmmaE4m3)
KLAB_WGMMA_KERNEL(int8, WgmmaInt8)

KLAB_KERNEL(32) klab_calibrate_read_bulk(const unsigned char* a, u32* out, MemoryPush push) {
#if defined(KLAB_HAS_BULK)
  extern __shared__ unsigned char raw[];
  bulk_all<false>(nullptr, a, out, push, raw);
#else
  if (push.tiles == 0) tell(out, false, 0);
#endif
}
KLAB_KERNEL(32) klab_calibrate_copy_bulk(unsigned char* a, const unsigned char* b, u32* out, MemoryPush push) {
#if defined(KLAB_HAS_BULK)
  extern __shared__ unsigned char raw[];
  bulk_all<true>(a, b, out, push, raw);
#else
  if (push.tiles == 0) tell(out, false, 0);
#endif
}
#endif
