// SPDX-License-Identifier: Apache-2.0
#version 450
layout(local_size_x = 128) in;
layout(set = 0, binding = 0) buffer X { float x[]; };
layout(push_constant) uniform Push { uint n; float a; float b; };

void main() {
  const uint i = gl_GlobalInvocationID.x;
  if (i < n) x[i] = x[i] * a + b;
}
