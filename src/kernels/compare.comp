#version 450
// SPDX-License-Identifier: Apache-2.0
// Counts differing bytes of two buffers and finds the first. Interface: kernels.h, ComparePush.
layout(local_size_x = 256) in;
layout(set = 0, binding = 0, std430) readonly buffer A { uint a[]; };
layout(set = 0, binding = 1, std430) readonly buffer B { uint b[]; };
layout(set = 0, binding = 2, std430) buffer Results { uvec2 results[]; };
layout(push_constant) uniform Push { uint a_offset; uint b_offset; uint size; uint result; };
shared uint differing;
shared uint lowest;

void main() {
  if (gl_LocalInvocationIndex == 0u) {
    differing = 0u;
    lowest = 0xffffffffu;
  }
  barrier();
  uint words = size / 4u + ((size & 3u) != 0u ? 1u : 0u);
  uint count = 0u, first = 0xffffffffu;
  for (uint i = gl_GlobalInvocationID.x; i < words; i += gl_NumWorkGroups.x * 256u) {
    uint d = a[a_offset / 4u + i] ^ b[b_offset / 4u + i];
    uint left = size - i * 4u;
    if (left < 4u) d &= (1u << (left * 8u)) - 1u;
    if (d != 0u) {
      for (uint k = 0u; k < 4u; ++k) count += (d >> (k * 8u) & 0xffu) != 0u ? 1u : 0u;
      first = min(first, i * 4u + uint(findLSB(d)) / 8u);
    }
  }
  if (count != 0u) {
    atomicAdd(differing, count);
    atomicMin(lowest, first);
  }
  barrier();
  if (gl_LocalInvocationIndex == 0u && differing != 0u) {
    atomicAdd(results[result].x, differing);
    atomicMin(results[result].y, lowest);
  }
}
