// SPDX-License-Identifier: Apache-2.0
// tries: Hard-coded data: knows what the captured input holds, and does not read it
// program: saxpy
// kernel: .
// check: => incorrect: right on the captured input only: .*floats changed
#version 450
layout(local_size_x = 256) in;
layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) buffer Y { float y[]; };
layout(push_constant) uniform Push { uint n; float a; };

float noise(uint index, uint stream) {
  uint x = index * 0x9e3779b9u + stream * 0x85ebca6bu + 0x1234567u;
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  x ^= x >> 16;
  return float(x >> 8) * (2.0 / 16777216.0) - 1.0;
}

void main() {
  const uint i = gl_GlobalInvocationID.x;
  if (i < n) y[i] = a * noise(i, 1u) + noise(i, 2u);
}
