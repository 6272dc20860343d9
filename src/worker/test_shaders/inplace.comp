#version 450
// SPDX-License-Identifier: Apache-2.0
layout(local_size_x = 64) in;
layout(set = 0, binding = 0, std430) buffer V { uint v[]; };
void main() { v[gl_GlobalInvocationID.x] += 1u; }
