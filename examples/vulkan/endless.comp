// SPDX-License-Identifier: Apache-2.0
// Spins until the host sets the flag.
#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) coherent buffer A { uint flag; uint started; uint spins; };

void main() {
  atomicExchange(started, 1u);
  uint n = 0;
  while (atomicOr(flag, 0u) == 0u) ++n;
  spins = n;
}
