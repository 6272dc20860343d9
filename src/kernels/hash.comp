#version 450
// SPDX-License-Identifier: Apache-2.0
// Hashes chunks of one buffer. Interface: kernels.h, HashChunk and HashPush.
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 256) in;
layout(set = 0, binding = 0, std430) readonly buffer Data { uint data[]; };
layout(set = 0, binding = 1, std430) readonly buffer Chunks { uvec2 chunks[]; };
layout(set = 0, binding = 2, std430) writeonly buffer Results { uvec4 results[]; };
layout(push_constant) uniform Push { uint count; uint first; };
#include "hash_common.glsl"

void main() {
  uint number = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  if (number >= count) return;
  uvec2 chunk = chunks[first + number];
  uint base = chunk.x / 4u;
  uint whole = chunk.y / 4u;
  uvec4 sum = uvec4(0u);
  for (uint i = gl_LocalInvocationIndex; i < whole; i += 256u) sum += mix_word(data[base + i], i);
  if ((chunk.y & 3u) != 0u && gl_LocalInvocationIndex == 0u)
    sum += mix_word(data[base + whole] & tail_mask(chunk.y & 3u), whole);
  sum = reduce(sum);
  if (gl_LocalInvocationIndex == 0u) results[first + number] = finish(sum, chunk.y);
}
