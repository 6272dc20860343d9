// SPDX-License-Identifier: Apache-2.0
// tries: Hard-coded shape: knows how many elements the captured launch has
// program: saxpy
// kernel: .
// check: => correct: bitwise equal
// check: --unseen "push=0=00000800" => incorrect: another launch
#version 450
layout(local_size_x = 256) in;
layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) buffer Y { float y[]; };
layout(push_constant) uniform Push { uint n; float a; };

void main() {
  const uint i = gl_GlobalInvocationID.x;
  if (i < 1048576u) y[i] = a * x[i] + y[i];
}
