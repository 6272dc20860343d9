// SPDX-License-Identifier: Apache-2.0
// tries: Out of bounds: one element past its output, through an address
// program: pointer_table
// kernel: pointer_table
// check: => incorrect: the redzone after .*address 0x
#version 450
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 64) in;

layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Values { float v[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Block {
  Values values;
  float scale;
  uint shift;
};
layout(buffer_reference, std430, buffer_reference_align = 16) writeonly buffer Output { float v[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Table { Block blocks[16]; };

layout(push_constant) uniform Push { Table table; Output result; uint blocks; uint n; };

void main() {
  const uint i = gl_GlobalInvocationID.x;
  if (i >= n) return;
  float sum = 0.0;
  for (uint b = 0; b < blocks; ++b) {
    Block block = table.blocks[b];
    sum += block.scale * block.values.v[(i + block.shift) % n];
  }
  result.v[i] = sum;
  if (i == 0u) result.v[n] = 1.0;
}
