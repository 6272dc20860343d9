// SPDX-License-Identifier: Apache-2.0
// tries: Doing nothing where the result replaces the input
// program: inplace
// kernel: .
// check: => incorrect: element \[0\]
#version 450
layout(local_size_x = 128) in;
layout(set = 0, binding = 0) buffer X { float x[]; };
layout(push_constant) uniform Push { uint n; float a; float b; };
void main() {}
