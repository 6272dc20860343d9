// SPDX-License-Identifier: Apache-2.0
// tries: Precision downgrade within the tolerance: seen against a float64 reference only
// program: matmul_tiled
// kernel: matmul_naive
// check: --tolerance abs=2e-4,rel=1e-4 => correct: within the tolerance
// check: --tolerance abs=2e-4,rel=1e-4 {reference} => incorrect: more than twice the captured kernel
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
  c[row * n + col] = uintBitsToFloat((floatBitsToUint(sum) + 64u) & ~127u);
}
