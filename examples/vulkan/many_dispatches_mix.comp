// SPDX-License-Identifier: Apache-2.0
#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) buffer A { uint a[]; };
layout(set = 0, binding = 1) buffer B { uint b[]; };
layout(push_constant) uniform Push { uint n; uint step; };
void main() {
  const uint i = gl_GlobalInvocationID.x;
  if (i < n) b[i] ^= a[(i + step) % n] >> 3;
}
