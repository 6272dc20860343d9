#version 450
// SPDX-License-Identifier: Apache-2.0
// Read, write, copy and triad in Vulkan. Interface: calibration.h. Compiled once for each KLAB_OP and KLAB_WIDTH.
#extension GL_EXT_control_flow_attributes : require
#define KLAB_READ 0
#define KLAB_WRITE 1
#define KLAB_COPY 2
#define KLAB_TRIAD 3
#define KLAB_FILL 4
#if KLAB_WIDTH == 4
#define Vector uint
#define WORDS(v) (v)
#define REPEATED(s) (s)
#elif KLAB_WIDTH == 8
#define Vector uvec2
#define WORDS(v) ((v).x + (v).y)
#define REPEATED(s) vec2(s)
#else
#define Vector uvec4
#define WORDS(v) ((v).x + (v).y + ((v).z + (v).w))
#define REPEATED(s) vec4(s)
#endif
#if KLAB_OP == KLAB_TRIAD && KLAB_WIDTH == 16
#define UNROLL 4
#elif KLAB_OP == KLAB_FILL
#define UNROLL 1
#else
#define UNROLL 8
#endif
layout(local_size_x = 256) in;
#if KLAB_OP == KLAB_READ
layout(set = 0, binding = 0, std430) readonly buffer A { Vector a[]; };
layout(set = 0, binding = 1, std430) buffer Out { uint o[]; };
#elif KLAB_OP == KLAB_WRITE || KLAB_OP == KLAB_FILL
layout(set = 0, binding = 0, std430) writeonly buffer A { Vector a[]; };
layout(set = 0, binding = 1, std430) buffer Out { uint o[]; };
#elif KLAB_OP == KLAB_COPY
layout(set = 0, binding = 0, std430) writeonly buffer A { Vector a[]; };
layout(set = 0, binding = 1, std430) readonly buffer B { Vector b[]; };
layout(set = 0, binding = 2, std430) buffer Out { uint o[]; };
#else
layout(set = 0, binding = 0, std430) writeonly buffer A { Vector a[]; };
layout(set = 0, binding = 1, std430) readonly buffer B { Vector b[]; };
layout(set = 0, binding = 2, std430) readonly buffer C { Vector c[]; };
layout(set = 0, binding = 3, std430) buffer Out { uint o[]; };
#endif
layout(push_constant) uniform Push { uint tiles; uint passes; uint shift; uint report; uint value; float scale; };

uint word(uint i) {
  uint x = i * 0x9e3779b9u + value;
  x = (x ^ (x >> 16)) * 0x21f0aaadu;
  x = (x ^ (x >> 15)) * 0x735a2d97u;
  return (x >> 9) | 0x3f800000u;
}

void main() {
  uint thread = gl_LocalInvocationID.x;
  if (tiles == 0u) {
    if (gl_GlobalInvocationID.x == 0u) {
      o[0] = 1u;
      o[1] = uint(KLAB_WIDTH * UNROLL);
      o[2] = o[3] = o[4] = o[5] = 0u;
    }
    return;
  }
  uint total = 0u;
  for (uint p = 0u; p < passes; ++p)
    for (uint i = gl_WorkGroupID.x; i < tiles; i += gl_NumWorkGroups.x) {
      uint tile = i + p * shift % tiles;
      if (tile >= tiles) tile -= tiles;
      uint first = tile * (256u * uint(UNROLL)) + thread;
#if KLAB_OP == KLAB_READ
      Vector v[UNROLL];
      [[unroll]] for (int u = 0; u < UNROLL; ++u) v[u] = a[first + uint(u) * 256u];
      [[unroll]] for (int u = 0; u < UNROLL; ++u) total += WORDS(v[u]);
#elif KLAB_OP == KLAB_WRITE
      [[unroll]] for (int u = 0; u < UNROLL; ++u) a[first + uint(u) * 256u] = Vector(value);
#elif KLAB_OP == KLAB_FILL
      a[first] = Vector(word(first * 4u), word(first * 4u + 1u), word(first * 4u + 2u), word(first * 4u + 3u));
#elif KLAB_OP == KLAB_COPY
      Vector v[UNROLL];
      [[unroll]] for (int u = 0; u < UNROLL; ++u) v[u] = b[first + uint(u) * 256u];
      [[unroll]] for (int u = 0; u < UNROLL; ++u) a[first + uint(u) * 256u] = v[u];
#else
      Vector x[UNROLL], y[UNROLL];
      [[unroll]] for (int u = 0; u < UNROLL; ++u) {
        x[u] = b[first + uint(u) * 256u];
        y[u] = c[first + uint(u) * 256u];
      }
      [[unroll]] for (int u = 0; u < UNROLL; ++u)
        a[first + uint(u) * 256u] = floatBitsToUint(fma(uintBitsToFloat(y[u]), REPEATED(scale), uintBitsToFloat(x[u])));
#endif
    }
#if KLAB_OP == KLAB_READ
  if (report != 0u)
    atomicAdd(o[0], total);
  else if (total == value)
    o[thread] = total;
#endif
}
