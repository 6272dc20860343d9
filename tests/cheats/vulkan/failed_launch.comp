// SPDX-License-Identifier: Apache-2.0
// tries: Failed launch: asks for more shared memory than there is, and hopes that nobody looks
// program: saxpy
// kernel: .
// check: => failed: shared|limit|bytes
#version 450
layout(local_size_x = 256) in;
layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) buffer Y { float y[]; };
layout(push_constant) uniform Push { uint n; float a; };

shared float big[262144];
void main() {
  const uint i = gl_GlobalInvocationID.x;
  big[gl_LocalInvocationIndex] = 1.0;
  barrier();
  if (i < n) y[i] = a * x[i] + y[i] * big[255u - gl_LocalInvocationIndex];
}
