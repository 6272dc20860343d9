// SPDX-License-Identifier: Apache-2.0
#version 450
layout(local_size_x = 32) in;
layout(set = 0, binding = 0) buffer A { uint v[]; };
layout(push_constant) uniform Push { uint n; };

void main() {
  const uint i = gl_GlobalInvocationID.x;  // counts from the base of vkCmdDispatchBase
  if (i < n) v[i] = v[i] * 5u + gl_WorkGroupID.x;
}
