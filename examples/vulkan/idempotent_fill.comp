// SPDX-License-Identifier: Apache-2.0
#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) writeonly buffer A { uint v[]; };
layout(push_constant) uniform Push { uint n; };

void main() {
  const uint i = gl_GlobalInvocationID.x;
  if (i < n) v[i] = i * 2246822519u;
}
