#version 450
// SPDX-License-Identifier: Apache-2.0
// Overwrites the bytes that a mask names by a pattern. Interface: kernels.h, PoisonPush.
layout(local_size_x = 256) in;
layout(set = 0, binding = 0, std430) buffer Data { uint data[]; };
layout(set = 0, binding = 1, std430) readonly buffer Mask { uint mask[]; };
layout(push_constant) uniform Push { uint offset; uint size; uint pattern_low; uint pattern_high; };

void main() {
  uint words = size / 4u + ((size & 3u) != 0u ? 1u : 0u);
  for (uint i = gl_GlobalInvocationID.x; i < words; i += gl_NumWorkGroups.x * 256u) {
    uint bits = mask[i >> 3] >> ((i & 7u) * 4u) & 0xfu;
    uint left = size - i * 4u;
    if (left < 4u) bits &= (1u << left) - 1u;
    if (bits == 0u) continue;
    uint bytes = ((bits & 1u) | (bits & 2u) << 7 | (bits & 4u) << 14 | (bits & 8u) << 21) * 0xffu;
    uint pattern = (i & 1u) != 0u ? pattern_high : pattern_low;
    uint at = offset / 4u + i;
    data[at] = (data[at] & ~bytes) | (pattern & bytes);
  }
}
