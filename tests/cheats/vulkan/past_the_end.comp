// SPDX-License-Identifier: Apache-2.0
// tries: Out of bounds: one element past its output
// program: saxpy
// kernel: .
// check: => incorrect: outside (its buffers|what the baseline writes): the redzone after region 1
#version 450
layout(local_size_x = 256) in;
layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) buffer Y { float y[]; };
layout(push_constant) uniform Push { uint n; float a; };

void main() {
  const uint i = gl_GlobalInvocationID.x;
  if (i < n) y[i] = a * x[i] + y[i];
  if (i == 0u) y[n] = 1.0;
}
