// SPDX-License-Identifier: Apache-2.0
// tries: Stale output: writes nothing, since the answer is there already
// program: idempotent
// kernel: idempotent_fill
// check: => incorrect: expected .*got
#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) writeonly buffer A { uint v[]; };
layout(push_constant) uniform Push { uint n; };
void main() {}
