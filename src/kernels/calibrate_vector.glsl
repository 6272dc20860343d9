#version 450
// SPDX-License-Identifier: Apache-2.0
// Chains of dependent multiply-adds in Vulkan, as calibrate_vector.cuh has them. Compiled once for each KLAB_TYPE.
#extension GL_EXT_control_flow_attributes : require
#define KLAB_FP64 0
#define KLAB_FP32 1
#define KLAB_FP16 2
#define KLAB_INT32 3
#if KLAB_TYPE == KLAB_FP64
#define Value double
#define OPERATIONS 2u
#define FROM(x) double(x)
#define STEP(x) fma(x, m, n)
#define BITS(v) (unpackDouble2x32(v).x ^ unpackDouble2x32(v).y)
#elif KLAB_TYPE == KLAB_FP32
#define Value float
#define OPERATIONS 2u
#define FROM(x) (x)
#define STEP(x) fma(x, m, n)
#define BITS(x) floatBitsToUint(x)
#elif KLAB_TYPE == KLAB_FP16
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define Value f16vec2
#define OPERATIONS 4u
#define FROM(x) f16vec2(float16_t(x))
#define STEP(x) fma(x, m, n)
#define BITS(x) packFloat2x16(x)
#else
#define Value uint
#define OPERATIONS 2u
#define FROM(x) (floatBitsToUint(x) | 1u)
#define STEP(x) ((x)*m + n)
#define BITS(x) (x)
#endif
layout(local_size_x = 256) in;
layout(set = 0, binding = 0, std430) buffer Out { uint o[]; };
layout(push_constant) uniform Push {
  uint iterations;
  uint report;
  uint operand_words;
  uint seed;
  float multiplier;
  float addend;
};

void main() {
  if (iterations == 0u) {
    if (gl_GlobalInvocationID.x == 0u) {
      o[0] = 1u;
      o[1] = OPERATIONS * 8u * 16u * 256u;
      o[2] = o[3] = o[4] = o[5] = 0u;
    }
    return;
  }
  Value m = FROM(multiplier), n = FROM(addend);
  Value x[8];
  [[unroll]] for (int c = 0; c < 8; ++c) x[c] = FROM(float(gl_LocalInvocationID.x % 64u + uint(c)) * 0.0625);
  for (uint i = 0u; i < iterations; ++i) {
    [[unroll]] for (int s = 0; s < 16; ++s) {
      [[unroll]] for (int c = 0; c < 8; ++c) x[c] = STEP(x[c]);
    }
  }
  uint all = 0u;
  [[unroll]] for (int c = 0; c < 8; ++c) all = (all << 1 | all >> 31) ^ BITS(x[c]);
  uint thread = gl_GlobalInvocationID.x;
  if (report != 0u)
    o[thread % 65536u] = all;
  else if (all == seed)
    o[0] = all;
}
