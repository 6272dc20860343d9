// SPDX-License-Identifier: Apache-2.0
#version 450
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kFactor = 1;
layout(constant_id = 2) const float kBias = 0.5;
layout(constant_id = 3) const bool kNegate = false;
layout(set = 0, binding = 0) readonly buffer In { float v[]; };
layout(set = 0, binding = 1) writeonly buffer Out { float r[]; };
layout(push_constant) uniform Push { uint n; };

void main() {
  const uint i = gl_GlobalInvocationID.x;
  if (i >= n) return;
  const float x = v[i] * float(kFactor) + kBias;
  r[i] = kNegate ? -x : x;
}
