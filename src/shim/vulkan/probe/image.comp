#version 450
// SPDX-License-Identifier: Apache-2.0
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) buffer Data { uint data[]; };
layout(set = 0, binding = 3, r32ui) uniform uimage2D image;
void main() { data[gl_GlobalInvocationID.x] = imageLoad(image, ivec2(0)).x; }
