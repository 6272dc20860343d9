// SPDX-License-Identifier: Apache-2.0
// An array of storage buffers, a dynamic storage buffer, a uniform buffer and a dynamic uniform buffer.
#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer Parts { float v[]; } parts[3];
layout(set = 0, binding = 1) buffer Out { float r[]; };  // dynamic offset
layout(set = 0, binding = 2) uniform Weights { vec4 weight; };
layout(set = 0, binding = 3) uniform Shift { uint shift; };  // dynamic offset
layout(push_constant) uniform Push { uint n; };

void main() {
  const uint i = gl_GlobalInvocationID.x;
  if (i >= n) return;
  const uint k = (i + shift) % n;
  r[i] += weight.x * parts[0].v[k] + weight.y * parts[1].v[k] + weight.z * parts[2].v[k];
}
