#version 450
// SPDX-License-Identifier: Apache-2.0
// A float sum whose order differs from run to run (compare and swap, so that no extension is needed).
layout(local_size_x = 64) in;
layout(set = 0, binding = 0, std430) readonly buffer X { float x[]; };
layout(set = 0, binding = 1, std430) buffer Sum { uint sum; uint count; };
void main() {
  uint i = gl_GlobalInvocationID.x;
  uint old = sum;
  for (;;) {
    uint now = atomicCompSwap(sum, old, floatBitsToUint(uintBitsToFloat(old) + x[i]));
    if (now == old) break;
    old = now;
  }
  atomicAdd(count, 1u);
}
