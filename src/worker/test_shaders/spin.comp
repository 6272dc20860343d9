#version 450
// SPDX-License-Identifier: Apache-2.0
// y = a * x slowly: STEPS turns of arithmetic that change nothing.
layout(local_size_x = 64) in;
layout(set = 0, binding = 0, std430) readonly buffer X { float x[]; };
layout(set = 0, binding = 1, std430) buffer Y { float y[]; };
layout(push_constant) uniform Push { float a; uint n; };
layout(constant_id = 0) const uint STEPS = 100;
void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i >= n) return;
  uint s = i;
  for (uint k = 0u; k < STEPS; ++k) s = s * 1664525u + 1013904223u;
  y[i] = a * x[i] + (s == 0xdeadbeefu && n == 0xffffffffu ? 1.0 : 0.0);
}
