// SPDX-License-Identifier: Apache-2.0
// tries: Input destruction: zeroes input and output
// program: saxpy
// kernel: .
// check: => incorrect: outside what the baseline writes|differ
#version 450
layout(local_size_x = 256) in;
layout(set = 0, binding = 0) buffer X { float x[]; };
layout(set = 0, binding = 1) buffer Y { float y[]; };
layout(push_constant) uniform Push { uint n; float a; };

void main() {
  const uint i = gl_GlobalInvocationID.x;
  if (i < n) {
    x[i] = 0.0;
    y[i] = 0.0;
  }
}
