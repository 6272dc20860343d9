#version 450
// SPDX-License-Identifier: Apache-2.0
layout(local_size_x = 64) in;
layout(set = 0, binding = 1, std430) buffer Y { float y[]; };
layout(push_constant) uniform Push { float a; uint n; };
void main() {
  if (n == 0xffffffffu) y[0] = a;
}
