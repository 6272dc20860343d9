#version 450
// SPDX-License-Identifier: Apache-2.0
// data[i] = data[i] * 3 + add[i % 4] + push.add + i
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) buffer Data { uint data[]; };
layout(set = 0, binding = 1) uniform Add { uvec4 add; };
layout(push_constant) uniform Push { uint n; uint unused; uint add; } push;
void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i < push.n) data[i] = data[i] * 3u + add[i % 4u] + push.add + i;
}
