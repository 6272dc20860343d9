#version 450
// SPDX-License-Identifier: Apache-2.0
// Follows a table of addresses: the word behind entry i grows by i + 1.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
layout(local_size_x = 1) in;
layout(buffer_reference, std430) buffer Word { uint value; };
layout(set = 0, binding = 0, std430) readonly buffer Table { uvec2 entries[]; };
void main() { Word(entries[gl_WorkGroupID.x]).value += gl_WorkGroupID.x + 1u; }
