#version 450
// SPDX-License-Identifier: Apache-2.0
// Reads and writes a whole buffer, or only reads it, so that caches hold it and nothing else. Interface: kernels.h,
// FlushPush.
layout(local_size_x = 256) in;
layout(set = 0, binding = 0, std430) buffer Data { uint data[]; };
layout(push_constant) uniform Push { uint words; uint value; };

void main() {
  if (value == 0u) {
    uint seen = 0u;
    for (uint i = gl_GlobalInvocationID.x; i < words; i += gl_NumWorkGroups.x * 256u) seen ^= data[i];
    if (seen == words && gl_GlobalInvocationID.x < words) data[gl_GlobalInvocationID.x] = seen;  // keeps the loads; the buffer is ours
    return;
  }
  for (uint i = gl_GlobalInvocationID.x; i < words; i += gl_NumWorkGroups.x * 256u)
    data[i] = data[i] * 0x9e3779b1u + value;
}
