// SPDX-License-Identifier: Apache-2.0
// A float sum by compare-and-exchange: rounding depends on the order in which workgroups arrive.
#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer In { float v[]; };
layout(set = 0, binding = 1) buffer Out { uint sum_bits; uint arrivals; uint exact[]; };
layout(push_constant) uniform Push { uint n; };

void main() {
  const uint i = gl_GlobalInvocationID.x;
  if (i >= n) return;
  uint seen = sum_bits;
  for (;;) {
    const uint wanted = floatBitsToUint(uintBitsToFloat(seen) + v[i]);
    const uint found = atomicCompSwap(sum_bits, seen, wanted);
    if (found == seen) break;
    seen = found;
  }
  atomicAdd(arrivals, 1u);
  exact[i] = floatBitsToUint(v[i] * 2.0);
}
