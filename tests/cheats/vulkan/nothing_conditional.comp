// SPDX-License-Identifier: Apache-2.0
// tries: Doing nothing where the captured input needs next to nothing
// program: idempotent
// kernel: idempotent_clamp
// check: => incorrect: mutated|doing nothing would be too|floats changed
#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) buffer A { float v[]; };
layout(push_constant) uniform Push { uint n; };
void main() {}
