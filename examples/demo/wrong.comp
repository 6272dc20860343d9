// SPDX-License-Identifier: Apache-2.0
// As faster.comp, with a mistake that people make: the loop over k ends one step of four too early.
#version 450
layout(local_size_x = 16, local_size_y = 16) in;
layout(set = 0, binding = 0) readonly buffer A { float a[]; };
layout(set = 0, binding = 1) readonly buffer B { float b[]; };
layout(set = 0, binding = 2) writeonly buffer C { float c[]; };
layout(push_constant) uniform Push { uint n; };

void main() {
  const uint col = gl_GlobalInvocationID.x, row = gl_GlobalInvocationID.y;
  if (row >= n || col >= n) return;
  float sum = 0.0;
  uint at = row * n, bt = col;
  for (uint k = 0; k + 4 < n; k += 4, at += 4, bt += 4 * n) {
    sum += a[at] * b[bt];
    sum += a[at + 1] * b[bt + n];
    sum += a[at + 2] * b[bt + 2 * n];
    sum += a[at + 3] * b[bt + 3 * n];
  }
  c[row * n + col] = sum;
}
