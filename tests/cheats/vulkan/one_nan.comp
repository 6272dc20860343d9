// SPDX-License-Identifier: Apache-2.0
// tries: NaN in one element of many
// program: matmul_tiled
// kernel: matmul_naive
// check: --level numeric => incorrect: element \[7003\].*NaN
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
  for (uint k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + col];
  if (row * n + col == 7003u) sum = uintBitsToFloat(0x7fc00000u);
  c[row * n + col] = sum;
}
