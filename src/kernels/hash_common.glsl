// SPDX-License-Identifier: Apache-2.0
// The position-dependent hash of both hash kernels and of hash_on_host() in kernels.cpp: change all together.
// 32-bit integers only: a GPU without Int64 can run it.
//
// Each word is mixed with its position by two bijections of the word, so a change of one word always changes the sums;
// addition makes the result independent of how threads share the words.
uvec4 mix_word(uint word, uint index) {
  uint key = index * 0x9e3779b9u + 0x7f4a7c15u;
  key = (key ^ (key >> 16)) * 0x21f0aaadu;
  key ^= key >> 15;
  uint x = (word ^ key) * 0x85ebca6bu;
  x = (x ^ (x >> 15)) * 0xc2b2ae35u;
  x ^= x >> 13;
  uint y = (word + ((key << 16) | (key >> 16))) * 0x27d4eb2fu;
  y = (y ^ (y >> 14)) * 0x165667b1u;
  y ^= y >> 16;
  uint z = (((x << 11) | (x >> 21)) + y) * (key | 1u);
  uint w = (((y << 17) | (y >> 15)) ^ x) * 0x9e3779b1u;
  return uvec4(x, y, z ^ (z >> 15), w ^ (w >> 14));
}

uint avalanche(uint v) {
  v = (v ^ (v >> 16)) * 0x85ebca6bu;
  v = (v ^ (v >> 13)) * 0xc2b2ae35u;
  return v ^ (v >> 16);
}

uvec4 finish(uvec4 sum, uint size) {
  sum += uvec4(size, size * 0x9e3779b1u, ~size, size ^ 0x5bd1e995u);
  for (int round = 0; round < 2; ++round) {
    sum.x += avalanche(sum.y);
    sum.y += avalanche(sum.z);
    sum.z += avalanche(sum.w);
    sum.w += avalanche(sum.x);
  }
  return sum;
}

// Bytes past the end of a chunk count as zero; the size is part of the hash.
uint tail_mask(uint bytes_left) { return bytes_left >= 4u ? 0xffffffffu : (1u << (bytes_left * 8u)) - 1u; }

shared uvec4 partial[256];

uvec4 reduce(uvec4 sum) {
  uint thread = gl_LocalInvocationIndex;
  partial[thread] = sum;
  barrier();
  for (uint step = 128u; step > 0u; step >>= 1) {
    if (thread < step) partial[thread] += partial[thread + step];
    barrier();
  }
  return partial[0];
}
