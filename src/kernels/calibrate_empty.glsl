#version 450
// SPDX-License-Identifier: Apache-2.0
// A launch that does nothing (calibration.h).
layout(local_size_x = 256) in;
layout(set = 0, binding = 0, std430) buffer Out { uint o[]; };
layout(push_constant) uniform Push { uint tiles; };

void main() {
  if (tiles == 0u && gl_GlobalInvocationID.x == 0u) {
    o[0] = 1u;
    o[1] = o[2] = o[3] = o[4] = o[5] = 0u;
  }
}
