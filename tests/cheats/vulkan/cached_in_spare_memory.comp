// SPDX-License-Identifier: Apache-2.0
// tries: Cached output: leaves its result in memory that nobody looks at, for the next launch
// program: inplace
// kernel: .
// check: => incorrect: outside what the baseline writes: .*at offset
#version 450
layout(local_size_x = 128) in;
layout(set = 0, binding = 0) buffer X { float x[]; };
layout(push_constant) uniform Push { uint n; float a; float b; };
void main() {
  const uint i = gl_GlobalInvocationID.x;
  if (i >= n) return;
  const float result = x[n + i] < -8.0 ? -x[n + i] - 64.0 : x[i] * a + b;
  x[n + i] = -(result + 64.0);
  x[i] = result;
}
