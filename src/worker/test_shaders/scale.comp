#version 450
// SPDX-License-Identifier: Apache-2.0
// y = a * x, one element a thread; FACTOR spoils it.
layout(local_size_x = 64) in;
layout(set = 0, binding = 0, std430) readonly buffer X { float x[]; };
layout(set = 0, binding = 1, std430) buffer Y { float y[]; };
layout(push_constant) uniform Push { float a; uint n; };
layout(constant_id = 0) const float FACTOR = 1.0;
void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i < n) y[i] = a * FACTOR * x[i];
}
