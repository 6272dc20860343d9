// SPDX-License-Identifier: Apache-2.0
// Collects the indices of negative values in order of workgroups, and the grid that handles them.
#version 450
layout(local_size_x = 1) in;
layout(set = 0, binding = 0) readonly buffer Values { float v[]; };
layout(set = 0, binding = 1) buffer Plan { uvec4 grid; uint list[]; };
layout(push_constant) uniform Push { uint n; };

void main() {
  uint count = 0;
  for (uint i = 0; i < n; ++i)
    if (v[i] < 0.0) list[count++] = i;
  grid = uvec4((count + 63) / 64, 1, 1, count);
}
