#version 450
// SPDX-License-Identifier: Apache-2.0
// Counts floating-point elements that are further from what they should be than a tolerance. Interface: kernels.h,
// ValuesPush. NaN and infinity are told by their bits: a driver may assume that there are none.
layout(local_size_x = 256) in;
layout(set = 0, binding = 0, std430) readonly buffer Actual { uint a[]; };
layout(set = 0, binding = 1, std430) readonly buffer Expected { uint e[]; };
layout(set = 0, binding = 2, std430) buffer Results { uvec4 results[]; };
layout(push_constant) uniform Push {
  uint actual_start; uint expected_start; uint first; uint count; uint stride; uint per; uint type; uint result;
  float absolute; float relative; uint key;
};
shared uint beyond;
shared uint different;
shared uint lowest;

uint veil(uint index) {
  uint x = (index ^ key) * 0x85ebca6bu;
  x = (x ^ (x >> 15)) * 0xc2b2ae35u;
  return x ^ (x >> 13) ^ key;
}

// The element's bits as those of a 32-bit float.
uint widen(uint bits) {
  if (type == 2u) return bits;
  return type == 1u ? bits << 16 : floatBitsToUint(unpackHalf2x16(bits).x);
}

bool special(uint bits) { return (bits & 0x7f800000u) == 0x7f800000u; }

bool takes(uint got, uint wanted) {
  if (special(got) || special(wanted)) {
    bool got_nan = (got & 0x7fffffffu) > 0x7f800000u, wanted_nan = (wanted & 0x7fffffffu) > 0x7f800000u;
    return got_nan || wanted_nan ? got_nan && wanted_nan : got == wanted;
  }
  float w = uintBitsToFloat(wanted);
  return abs(uintBitsToFloat(got) - w) <= absolute + relative * abs(w);
}

void main() {
  if (gl_LocalInvocationIndex == 0u) {
    beyond = 0u;
    different = 0u;
    lowest = 0xffffffffu;
  }
  barrier();
  uint size = type == 2u ? 4u : 2u, mask = type == 2u ? 0xffffffffu : 0xffffu;
  uint bad = 0u, other = 0u, low = 0xffffffffu;
  for (uint n = gl_GlobalInvocationID.x; n < count; n += gl_NumWorkGroups.x * 256u) {
    uint i = first + n;
    uint at = per == 1u ? i * stride : i / per * stride + i % per * size;
    uint got_at = actual_start + at, wanted_at = expected_start + at;
    uint got = a[got_at / 4u] >> ((got_at & 2u) * 8u) & mask;
    uint wanted = (e[wanted_at / 4u] ^ veil(wanted_at / 4u)) >> ((wanted_at & 2u) * 8u) & mask;
    if (got == wanted) continue;
    ++other;
    if (takes(widen(got), widen(wanted))) continue;
    ++bad;
    low = min(low, i);
  }
  if (other != 0u) {
    atomicAdd(different, other);
    atomicAdd(beyond, bad);
    atomicMin(lowest, low);
  }
  barrier();
  if (gl_LocalInvocationIndex == 0u && different != 0u) {
    atomicAdd(results[result].x, beyond);
    atomicMin(results[result].y, lowest);
    atomicAdd(results[result].z, different);
  }
}
