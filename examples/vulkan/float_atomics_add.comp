// SPDX-License-Identifier: Apache-2.0
// As float_atomics.comp, with the hardware's float atomicAdd.
#version 450
#extension GL_EXT_shader_atomic_float : require
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer In { float v[]; };
layout(set = 0, binding = 1) buffer Out { float sum; uint arrivals; uint exact[]; };
layout(push_constant) uniform Push { uint n; };

void main() {
  const uint i = gl_GlobalInvocationID.x;
  if (i >= n) return;
  atomicAdd(sum, v[i]);
  atomicAdd(arrivals, 1u);
  exact[i] = floatBitsToUint(v[i] * 2.0);
}
