// SPDX-License-Identifier: Apache-2.0
// Squares the listed values.
#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) buffer Values { float v[]; };
layout(set = 0, binding = 1) readonly buffer Plan { uvec4 grid; uint list[]; };
layout(push_constant) uniform Push { uint n; };

void main() {
  const uint k = gl_GlobalInvocationID.x;
  if (k < grid.w) v[list[k]] = v[list[k]] * v[list[k]];
}
