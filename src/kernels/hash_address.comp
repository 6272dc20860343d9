#version 450
// SPDX-License-Identifier: Apache-2.0
// Hashes chunks anywhere in device memory, by address. Interface: kernels.h, HashAddressChunk and HashPush.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
layout(local_size_x = 256) in;
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Words { uint word; };
layout(set = 0, binding = 0, std430) readonly buffer Chunks { uvec4 chunks[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Results { uvec4 results[]; };
layout(push_constant) uniform Push { uint count; uint first; };
#include "hash_common.glsl"

uint load(uvec2 address, uint index) {
  uint carry;
  uint low = uaddCarry(address.x, index * 4u, carry);
  return Words(uvec2(low, address.y + carry)).word;
}

void main() {
  uint number = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  if (number >= count) return;
  uvec4 chunk = chunks[first + number];
  uint whole = chunk.z / 4u;
  uvec4 sum = uvec4(0u);
  for (uint i = gl_LocalInvocationIndex; i < whole; i += 256u) sum += mix_word(load(chunk.xy, i), i);
  if ((chunk.z & 3u) != 0u && gl_LocalInvocationIndex == 0u)
    sum += mix_word(load(chunk.xy, whole) & tail_mask(chunk.z & 3u), whole);
  sum = reduce(sum);
  if (gl_LocalInvocationIndex == 0u) results[first + number] = finish(sum, chunk.z);
}
