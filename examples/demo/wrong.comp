// SPDX-License-Identifier: Apache-2.0
// As faster.comp, with a mistake that people make: the loop over k ends one step too early.
#version 450
layout(local_size_x = 16, local_size_y = 16) in;
layout(set = 0, binding = 0) readonly buffer A { vec4 a[]; };
layout(set = 0, binding = 1) readonly buffer B { vec4 b[]; };
layout(set = 0, binding = 2) writeonly buffer C { vec4 c[]; };
layout(push_constant) uniform Push { uint n; };

void main() {
  const uint id = gl_LocalInvocationIndex, n4 = n / 4;
  if (id >= 64) return;
  const uint col = gl_WorkGroupID.x * 4 + id % 4, row = gl_WorkGroupID.y * 16 + id / 4;
  vec4 sum = vec4(0.0);
  for (uint k = 0; k + 1 < n4; ++k) {
    const vec4 four = a[row * n4 + k];
    const uint at = 4 * k * n4 + col;
    sum += four.x * b[at];
    sum += four.y * b[at + n4];
    sum += four.z * b[at + 2 * n4];
    sum += four.w * b[at + 3 * n4];
  }
  c[row * n4 + col] = sum;
}
