#version 450
// SPDX-License-Identifier: Apache-2.0
// A float sum whose order differs from run to run (compare and swap, so that no extension is needed). Workgroups take
// unequal times, so that two threads of a CPU driver meet in another order each time.
layout(local_size_x = 64) in;
layout(set = 0, binding = 0, std430) readonly buffer X { float x[]; };
layout(set = 0, binding = 1, std430) buffer Sum { uint sum; uint count; };
void main() {
  uint i = gl_GlobalInvocationID.x;
  uint s = gl_WorkGroupID.x;
  for (uint k = 0u; k < (gl_WorkGroupID.x * 7919u) % 500u; ++k) s = s * 1664525u + 1013904223u;
  float value = x[i] + (s == 0x12345678u ? 1e-30 : 0.0);
  uint old = sum;
  for (;;) {
    uint now = atomicCompSwap(sum, old, floatBitsToUint(uintBitsToFloat(old) + value));
    if (now == old) break;
    old = now;
  }
  atomicAdd(count, 1u);
}
