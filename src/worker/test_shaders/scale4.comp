#version 450
// SPDX-License-Identifier: Apache-2.0
// y = a * x, another way: 256 threads, each strides.
layout(local_size_x = 256) in;
layout(set = 0, binding = 0, std430) readonly buffer X { float x[]; };
layout(set = 0, binding = 1, std430) buffer Y { float y[]; };
layout(push_constant) uniform Push { float a; uint n; };
void main() {
  for (uint i = gl_GlobalInvocationID.x; i < n; i += gl_NumWorkGroups.x * 256u) y[i] = a * x[i];
}
