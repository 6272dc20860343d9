// SPDX-License-Identifier: Apache-2.0
// What one thread of each CUDA or HIP kernel does, without either: klab.cu calls it on a GPU, the unit test on the
// host. The hash is that of hash_common.glsl and of hash_on_host() in kernels.cpp: change all together.
#pragma once
#if defined(__CUDACC__) || defined(__HIP__)
#define KLAB_DEVICE __device__ __forceinline__
#else
#define KLAB_DEVICE inline
#endif

namespace klab::kernels::cuda {

using u32 = unsigned int;
using u64 = unsigned long long;

struct alignas(16) Quad {
  u32 x, y, z, w;
};

KLAB_DEVICE u32 rotate(u32 v, u32 by) { return (v << by) | (v >> (32u - by)); }
KLAB_DEVICE u64 address_of(const void* p) { return reinterpret_cast<u64>(p); }

/// What a word's position contributes; the same for words of several chunks.
struct Key {
  u32 key, rotated, odd;
};
KLAB_DEVICE Key key_of(u32 index) {
  u32 key = index * 0x9e3779b9u + 0x7f4a7c15u;
  key = (key ^ (key >> 16)) * 0x21f0aaadu;
  key ^= key >> 15;
  return {key, rotate(key, 16), key | 1u};
}

KLAB_DEVICE void mix(Quad& sum, u32 word, const Key& k) {
  u32 x = (word ^ k.key) * 0x85ebca6bu;
  x = (x ^ (x >> 15)) * 0xc2b2ae35u;
  x ^= x >> 13;
  u32 y = (word + k.rotated) * 0x27d4eb2fu;
  y = (y ^ (y >> 14)) * 0x165667b1u;
  y ^= y >> 16;
  const u32 z = (rotate(x, 11) + y) * k.odd;
  const u32 w = (rotate(y, 17) ^ x) * 0x9e3779b1u;
  sum.x += x;
  sum.y += y;
  sum.z += z ^ (z >> 15);
  sum.w += w ^ (w >> 14);
}

KLAB_DEVICE u32 avalanche(u32 v) {
  v = (v ^ (v >> 16)) * 0x85ebca6bu;
  v = (v ^ (v >> 13)) * 0xc2b2ae35u;
  return v ^ (v >> 16);
}

KLAB_DEVICE Quad finish(Quad sum, u32 size) {
  sum.x += size;
  sum.y += size * 0x9e3779b1u;
  sum.z += ~size;
  sum.w += size ^ 0x5bd1e995u;
  for (int round = 0; round < 2; ++round) {
    sum.x += avalanche(sum.y);
    sum.y += avalanche(sum.z);
    sum.z += avalanche(sum.w);
    sum.w += avalanche(sum.x);
  }
  return sum;
}

/// Chunks that one thread hashes side by side: their keys are made once, and their loads overlap.
constexpr int kTogether = 4;

struct Chunk {
  const unsigned char* data;
  u32 size;  // bytes
};

KLAB_DEVICE u32 load_word(const unsigned char* p, u32 bytes) {
  if (bytes >= 4 && (address_of(p) & 3) == 0) return *reinterpret_cast<const u32*>(p);
  u32 word = 0;
  for (u32 k = 0; k < 4 && k < bytes; ++k) word |= static_cast<u32>(p[k]) << (8 * k);
  return word;
}

/// Adds the share of thread `lane` of `lanes` to the sums of `count` (up to kTogether) chunks.
KLAB_DEVICE void hash_share(const Chunk* chunks, int count, u32 lane, u32 lanes, Quad* sums) {
  u32 most = 0, least = 0xffffffffu;
  u64 alignment = 0;
  for (int c = 0; c < count; ++c) {
    most = chunks[c].size > most ? chunks[c].size : most;
    least = chunks[c].size < least ? chunks[c].size : least;
    alignment |= address_of(chunks[c].data);
  }
  u32 quads = 0;  // whole 16 bytes that all of them have, read at once
  if ((alignment & 15) == 0) {
    quads = least / 16;
    if (count == kTogether) {
      for (u32 i = lane; i < quads; i += lanes) {
        Quad q[kTogether];
#if defined(__CUDACC__) || defined(__HIP__)
#pragma unroll
#endif
        for (int c = 0; c < kTogether; ++c) q[c] = reinterpret_cast<const Quad*>(chunks[c].data)[i];
        const Key k0 = key_of(4 * i), k1 = key_of(4 * i + 1), k2 = key_of(4 * i + 2), k3 = key_of(4 * i + 3);
#if defined(__CUDACC__) || defined(__HIP__)
#pragma unroll
#endif
        for (int c = 0; c < kTogether; ++c) {
          mix(sums[c], q[c].x, k0);
          mix(sums[c], q[c].y, k1);
          mix(sums[c], q[c].z, k2);
          mix(sums[c], q[c].w, k3);
        }
      }
    } else {
      for (u32 i = lane; i < quads; i += lanes) {
        const Key k0 = key_of(4 * i), k1 = key_of(4 * i + 1), k2 = key_of(4 * i + 2), k3 = key_of(4 * i + 3);
        for (int c = 0; c < count; ++c) {
          const Quad q = reinterpret_cast<const Quad*>(chunks[c].data)[i];
          mix(sums[c], q.x, k0);
          mix(sums[c], q.y, k1);
          mix(sums[c], q.z, k2);
          mix(sums[c], q.w, k3);
        }
      }
    }
  }
  const u32 words = most / 4 + ((most & 3) != 0 ? 1 : 0);
  for (u32 i = 4 * quads + lane; i < words; i += lanes) {
    const Key k = key_of(i);
    for (int c = 0; c < count; ++c)
      if (4 * i < chunks[c].size) mix(sums[c], load_word(chunks[c].data + 4 * i, chunks[c].size - 4 * i), k);
  }
}

/// Differing bytes of one word, and the lowest of them.
KLAB_DEVICE void compare_word(u32 a, u32 b, u32 offset, u32& count, u32& first) {
  const u32 d = a ^ b;
  if (d == 0) return;
  for (u32 k = 4; k-- > 0;)
    if ((d >> (8 * k) & 0xffu) != 0) {
      ++count;
      first = offset + k < first ? offset + k : first;
    }
}

KLAB_DEVICE void compare_share(const unsigned char* a, const unsigned char* b, u32 size, u32 lane, u32 lanes,
                               u32& count, u32& first) {
  u32 quads = 0;
  if (((address_of(a) | address_of(b)) & 15) == 0) {
    quads = size / 16;
    for (u32 i = lane; i < quads; i += lanes) {
      const Quad p = reinterpret_cast<const Quad*>(a)[i], q = reinterpret_cast<const Quad*>(b)[i];
      if (((p.x ^ q.x) | (p.y ^ q.y) | (p.z ^ q.z) | (p.w ^ q.w)) == 0) continue;
      compare_word(p.x, q.x, 16 * i, count, first);
      compare_word(p.y, q.y, 16 * i + 4, count, first);
      compare_word(p.z, q.z, 16 * i + 8, count, first);
      compare_word(p.w, q.w, 16 * i + 12, count, first);
    }
  }
  const u32 words = size / 4 + ((size & 3) != 0 ? 1 : 0);
  for (u32 i = 4 * quads + lane; i < words; i += lanes)
    compare_word(load_word(a + 4 * i, size - 4 * i), load_word(b + 4 * i, size - 4 * i), 4 * i, count, first);
}

/// kernels.h, ValuesPush and veil(). Loops of one thread; f64 is type 3.
struct Values {
  u32 actual_start, expected_start, first, count, stride, per, type, result;
  float absolute, relative;
  u32 key;
};

KLAB_DEVICE u32 veil(u32 index, u32 key) {
  u32 x = (index ^ key) * 0x85ebca6bu;
  x = (x ^ (x >> 15)) * 0xc2b2ae35u;
  return x ^ (x >> 13) ^ key;
}

union Bits64 {
  u64 bits;
  double value;
};
KLAB_DEVICE double as_double(u64 bits) {
  Bits64 b;
  b.bits = bits;
  return b.value;
}

/// The element's bits as those of a 64-bit float, exactly.
KLAB_DEVICE u64 widen(u64 bits, u32 type) {
  if (type == 3) return bits;
  const int mantissa = type == 0 ? 10 : type == 1 ? 7 : 23, exponent = type == 0 ? 5 : 8;
  const u64 sign = bits >> (mantissa + exponent) & 1u;
  const u64 fraction = bits & ((1ull << mantissa) - 1);
  const u64 power = bits >> mantissa & ((1ull << exponent) - 1);
  const int bias = (1 << (exponent - 1)) - 1;
  if (power == (1ull << exponent) - 1) return sign << 63 | 0x7ffull << 52 | fraction << (52 - mantissa);
  if (power != 0) return sign << 63 | (power + 1023 - bias) << 52 | fraction << (52 - mantissa);
  if (fraction == 0) return sign << 63;
  u64 f = fraction;
  int e = 1023 - bias + 1;
  while ((f >> mantissa & 1u) == 0) f <<= 1, --e;
  return sign << 63 | static_cast<u64>(e) << 52 | (f & ((1ull << mantissa) - 1)) << (52 - mantissa);
}

KLAB_DEVICE bool values_take(u64 got, u64 wanted, double absolute, double relative) {
  constexpr u64 kInfinity = 0x7ffull << 52, kMagnitude = ~0ull >> 1;
  if ((got & kInfinity) == kInfinity || (wanted & kInfinity) == kInfinity) {
    const bool got_nan = (got & kMagnitude) > kInfinity, wanted_nan = (wanted & kMagnitude) > kInfinity;
    return got_nan || wanted_nan ? got_nan && wanted_nan : got == wanted;
  }
  const double w = as_double(wanted), d = as_double(got) - w;
  return (d < 0 ? -d : d) <= absolute + relative * (w < 0 ? -w : w);
}

KLAB_DEVICE u64 load_veiled(const unsigned char* data, u32 at, u32 size, u32 key, bool veiled) {
  u64 bits = 0;
  for (u32 k = 0; k < (size + 3) / 4; ++k) {
    const u32 word = *reinterpret_cast<const u32*>(data + (at / 4 + k) * 4ull);
    bits |= static_cast<u64>(veiled ? word ^ veil(at / 4 + k, key) : word) << (32 * k);
  }
  return size == 2 ? bits >> ((at & 2u) * 8u) & 0xffffu : bits;
}

KLAB_DEVICE void values_share(const unsigned char* actual, const unsigned char* expected, const Values& v, u32 lane,
                              u32 lanes, u32& beyond, u32& first, u32& different) {
  const u32 size = v.type == 3 ? 8 : v.type == 2 ? 4 : 2;
  for (u32 n = lane; n < v.count; n += lanes) {
    const u32 i = v.first + n;
    const u32 at = v.per == 1 ? i * v.stride : i / v.per * v.stride + i % v.per * size;
    const u64 got = load_veiled(actual, v.actual_start + at, size, 0, false),
              wanted = load_veiled(expected, v.expected_start + at, size, v.key, true);
    if (got == wanted) continue;
    ++different;
    if (values_take(widen(got, v.type), widen(wanted, v.type), v.absolute, v.relative)) continue;
    ++beyond;
    first = i < first ? i : first;
  }
}

KLAB_DEVICE void flush_share(u32* data, u32 words, u32 value, u32 lane, u32 lanes) {
  u32 quads = 0;
  if (value == 0) {
    u32 seen = 0;
    if ((address_of(data) & 15) == 0) {
      quads = words / 4;
      for (u32 i = lane; i < quads; i += lanes) {
        const Quad q = reinterpret_cast<const Quad*>(data)[i];
        seen ^= q.x ^ q.y ^ q.z ^ q.w;
      }
    }
    for (u32 i = 4 * quads + lane; i < words; i += lanes) seen ^= data[i];
    if (seen == words && lane < words) data[lane] = seen;  // keeps the loads; the buffer is ours
    return;
  }
  if ((address_of(data) & 15) == 0) {
    quads = words / 4;
    for (u32 i = lane; i < quads; i += lanes) {
      Quad q = reinterpret_cast<Quad*>(data)[i];
      q.x = q.x * 0x9e3779b1u + value;
      q.y = q.y * 0x9e3779b1u + value;
      q.z = q.z * 0x9e3779b1u + value;
      q.w = q.w * 0x9e3779b1u + value;
      reinterpret_cast<Quad*>(data)[i] = q;
    }
  }
  for (u32 i = 4 * quads + lane; i < words; i += lanes) data[i] = data[i] * 0x9e3779b1u + value;
}

KLAB_DEVICE void copy_share(unsigned char* to, const unsigned char* from, u64 size, u64 lane, u64 lanes) {
  u64 done = 0;
  const u64 alignment = address_of(to) | address_of(from);
  if ((alignment & 15) == 0) {
    done = size / 16 * 16;
    for (u64 i = lane; i < size / 16; i += lanes)
      reinterpret_cast<Quad*>(to)[i] = reinterpret_cast<const Quad*>(from)[i];
  } else if ((alignment & 3) == 0) {
    done = size / 4 * 4;
    for (u64 i = lane; i < size / 4; i += lanes)
      reinterpret_cast<u32*>(to)[i] = reinterpret_cast<const u32*>(from)[i];
  }
  for (u64 i = done + lane; i < size; i += lanes) to[i] = from[i];
}

/// `data`: start of the window. Bytes past `size` are not touched.
KLAB_DEVICE void poison_share(unsigned char* data, const unsigned char* mask, u32 size, u32 low, u32 high,
                              u32 lane, u32 lanes) {
  const u32 words = size / 4 + ((size & 3) != 0 ? 1 : 0);
  for (u32 i = lane; i < words; i += lanes) {
    u32 bits = static_cast<u32>(mask[i / 2]) >> ((i & 1u) * 4u) & 0xfu;
    const u32 left = size - 4 * i;
    if (left < 4) bits &= (1u << left) - 1u;
    if (bits == 0) continue;
    const u32 pattern = (i & 1u) != 0 ? high : low;
    if (bits == 0xfu && (address_of(data) & 3) == 0) {
      *reinterpret_cast<u32*>(data + 4 * i) = pattern;
      continue;
    }
    for (u32 k = 0; k < 4; ++k)
      if ((bits >> k & 1u) != 0) data[4 * i + k] = static_cast<unsigned char>(pattern >> (8 * k));
  }
}

struct PatchEntry {
  u64 address, from, to;
};
/// A word that still holds what was put there becomes the other one.
KLAB_DEVICE void patch_one(const PatchEntry& e, bool back) {
  u64* const word = reinterpret_cast<u64*>(e.address);
  if (*word == (back ? e.to : e.from)) *word = back ? e.from : e.to;
}

}  // namespace klab::kernels::cuda
