// SPDX-License-Identifier: Apache-2.0
// Storage of 8 and 16 bits, arithmetic of 32: offsets that are not multiples of four.
#version 450
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer Bytes { uint8_t b[]; };
layout(set = 0, binding = 1) buffer Shorts { uint16_t s[]; };
layout(set = 0, binding = 2) writeonly buffer Halfs { float16_t h[]; };
layout(push_constant) uniform Push { uint n; };

void main() {
  const uint i = gl_GlobalInvocationID.x;
  if (i >= n) return;
  const uint sum = uint(b[i]) * 3u + uint(s[i]);
  s[i] = uint16_t(sum);
  h[i] = float16_t(float(sum & 1023u) * 0.5);
}
