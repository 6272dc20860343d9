// SPDX-License-Identifier: Apache-2.0
// c = a*b for square matrices whose side is a multiple of 16, through 16x16 tiles in shared memory.
#version 450
layout(local_size_x = 16, local_size_y = 16) in;
layout(set = 0, binding = 0) readonly buffer A { float a[]; };
layout(set = 0, binding = 1) readonly buffer B { float b[]; };
layout(set = 0, binding = 2) writeonly buffer C { float c[]; };
layout(push_constant) uniform Push { uint n; };
shared float tile_a[16][16];
shared float tile_b[16][16];

void main() {
  const uint col = gl_GlobalInvocationID.x, row = gl_GlobalInvocationID.y;
  const uint tx = gl_LocalInvocationID.x, ty = gl_LocalInvocationID.y;
  float sum = 0.0;
  for (uint t = 0; t < n; t += 16) {
    tile_a[ty][tx] = a[row * n + t + tx];
    tile_b[ty][tx] = b[(t + ty) * n + col];
    barrier();
    for (uint k = 0; k < 16; ++k) sum += tile_a[ty][k] * tile_b[k][tx];
    barrier();
  }
  c[row * n + col] = sum;
}
