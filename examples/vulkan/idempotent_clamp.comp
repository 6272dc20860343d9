// SPDX-License-Identifier: Apache-2.0
#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) buffer A { float v[]; };
layout(push_constant) uniform Push { uint n; };

void main() {
  const uint i = gl_GlobalInvocationID.x;
  if (i < n) v[i] = clamp(v[i], -0.5, 0.5);
}
