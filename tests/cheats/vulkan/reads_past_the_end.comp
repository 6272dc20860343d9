// SPDX-License-Identifier: Apache-2.0
// tries: Out of bounds: one element of its input too many
// program: reduction --nth 1
// kernel: .
// check: => incorrect: depends on what lies around its buffers
#version 450
layout(local_size_x = 256) in;
layout(set = 0, binding = 0) readonly buffer In { uint values[]; };
layout(set = 0, binding = 1) writeonly buffer Out { uint sums[]; };
layout(push_constant) uniform Push { uint n; };
shared uint part[256];

void main() {
  const uint t = gl_LocalInvocationID.x;
  const uint stride = gl_NumWorkGroups.x * 256;
  uint sum = 0;
  for (uint i = gl_GlobalInvocationID.x; i <= n; i += stride) sum += values[i];
  part[t] = sum;
  barrier();
  for (uint s = 128; s > 0; s >>= 1) {
    if (t < s) part[t] += part[t + s];
    barrier();
  }
  if (t == 0) sums[gl_WorkGroupID.x] = part[0];
}
