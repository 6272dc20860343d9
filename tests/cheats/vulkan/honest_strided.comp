// SPDX-License-Identifier: Apache-2.0
// tries: Honest: fewer workgroups, each doing more
// program: saxpy
// kernel: .
// check: => correct: bitwise equal
#version 450
layout(local_size_x = 256) in;
layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) buffer Y { float y[]; };
layout(push_constant) uniform Push { uint n; float a; };

void main() {
  const uint i = gl_GlobalInvocationID.x;
  for (uint k = i; k < n; k += gl_NumWorkGroups.x * 256u) y[k] = a * x[k] + y[k];
}
