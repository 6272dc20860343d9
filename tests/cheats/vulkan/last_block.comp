// SPDX-License-Identifier: Apache-2.0
// tries: Leaves the last, partial block unwritten
// program: saxpy --size 1000
// kernel: .
// check: => incorrect: element \[768\]
#version 450
layout(local_size_x = 256) in;
layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) buffer Y { float y[]; };
layout(push_constant) uniform Push { uint n; float a; };

void main() {
  const uint i = gl_GlobalInvocationID.x;
  if (gl_WorkGroupID.x < n / 256u) y[i] = a * x[i] + y[i];
}
