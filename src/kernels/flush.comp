#version 450
// SPDX-License-Identifier: Apache-2.0
// Reads and writes a whole buffer, so that caches hold it and nothing else. Interface: kernels.h, FlushPush.
layout(local_size_x = 256) in;
layout(set = 0, binding = 0, std430) buffer Data { uint data[]; };
layout(push_constant) uniform Push { uint words; uint value; };

void main() {
  for (uint i = gl_GlobalInvocationID.x; i < words; i += gl_NumWorkGroups.x * 256u)
    data[i] = data[i] * 0x9e3779b1u + value;
}
