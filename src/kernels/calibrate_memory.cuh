// SPDX-License-Identifier: Apache-2.0
// Read, write, copy and triad. A thread has `unroll` independent accesses under way; neighbours in a warp touch
// neighbours in memory.
#pragma once
#include "calibrate_device.cuh"

enum class Hint { streaming, cached };  // cached: in the last level, but not nearer to the cores

struct alignas(16) Vec8 {
  Vec4 low, high;
};

template <Hint hint, class V>
KLAB_INLINE V load(const V* p) {
#if defined(__HIP__)
  // Loads that are not kept near: the last level is what "cached" means there too.
  return __builtin_nontemporal_load(p);
#else
  if constexpr (hint == Hint::cached) return __ldcg(p);
  return __ldcs(p);
#endif
}
template <Hint hint>
KLAB_INLINE Vec8 load(const Vec8* p) {
  return {load<hint>(&p->low), load<hint>(&p->high)};
}
template <class V>
KLAB_INLINE void store(V* p, V v) {
#if defined(__HIP__)
  __builtin_nontemporal_store(v, p);
#else
  __stcs(p, v);
#endif
}
KLAB_INLINE void store(Vec8* p, Vec8 v) {
  store(&p->low, v.low);
  store(&p->high, v.high);
}

KLAB_INLINE u32 sum(Vec1 v) { return v; }
KLAB_INLINE u32 sum(Vec2 v) { return v.x + v.y; }
KLAB_INLINE u32 sum(Vec4 v) { return v.x + v.y + (v.z + v.w); }
KLAB_INLINE u32 sum(Vec8 v) { return sum(v.low) + sum(v.high); }

KLAB_INLINE void splat(Vec1& v, u32 x) { v = x; }
KLAB_INLINE void splat(Vec2& v, u32 x) { v.x = v.y = x; }
KLAB_INLINE void splat(Vec4& v, u32 x) { v.x = v.y = v.z = v.w = x; }
KLAB_INLINE void splat(Vec8& v, u32 x) {
  splat(v.low, x);
  splat(v.high, x);
}

KLAB_INLINE u32 triad_word(u32 b, u32 c, float s) { return bits_of(__builtin_fmaf(s, float_of(c), float_of(b))); }
KLAB_INLINE Vec1 triad(Vec1 b, Vec1 c, float s) { return triad_word(b, c, s); }
KLAB_INLINE Vec2 triad(Vec2 b, Vec2 c, float s) { return Vec2{triad_word(b.x, c.x, s), triad_word(b.y, c.y, s)}; }
KLAB_INLINE Vec4 triad(Vec4 b, Vec4 c, float s) {
  return Vec4{triad_word(b.x, c.x, s), triad_word(b.y, c.y, s), triad_word(b.z, c.z, s), triad_word(b.w, c.w, s)};
}
KLAB_INLINE Vec8 triad(Vec8 b, Vec8 c, float s) { return {triad(b.low, c.low, s), triad(b.high, c.high, s)}; }

/// Calls work(index of this thread's first element of a tile, distance of its others) for each tile of each pass.
template <int unroll, class Work>
KLAB_INLINE void each_tile(const MemoryPush& push, Work work) {
  const u32 threads = KLAB_THREADS;
  for (u32 pass = 0; pass < push.passes; ++pass)
    for (u32 i = KLAB_BLOCK; i < push.tiles; i += KLAB_BLOCKS) {
      u32 tile = i + pass * push.shift % push.tiles;
      if (tile >= push.tiles) tile -= push.tiles;
      work(static_cast<u64>(tile) * (threads * unroll) + KLAB_THREAD, threads);
    }
}

template <class V, int unroll, Hint hint>
KLAB_INLINE void read_all(const void* a, u32* out, const MemoryPush& push) {
  if (push.tiles == 0) return tell(out, true, sizeof(V) * unroll);
  const V* from = static_cast<const V*>(a);
  u32 total = 0;
  each_tile<unroll>(push, [&](u64 first, u32 step) {
    V v[unroll];
#pragma unroll
    for (int u = 0; u < unroll; ++u) v[u] = load<hint>(from + first + static_cast<u32>(u) * step);
#pragma unroll
    for (int u = 0; u < unroll; ++u) total += sum(v[u]);
  });
  if (push.report != 0)
    add_to(out, total);
  else if (total == push.value)
    out[KLAB_THREAD] = total;
}

template <class V, int unroll>
KLAB_INLINE void write_all(void* a, u32* out, const MemoryPush& push) {
  if (push.tiles == 0) return tell(out, true, sizeof(V) * unroll);
  V* to = static_cast<V*>(a);
  V v;
  splat(v, push.value);
  each_tile<unroll>(push, [&](u64 first, u32 step) {
#pragma unroll
    for (int u = 0; u < unroll; ++u) store(to + first + static_cast<u32>(u) * step, v);
  });
}

template <class V, int unroll>
KLAB_INLINE void copy_all(void* a, const void* b, u32* out, const MemoryPush& push) {
  if (push.tiles == 0) return tell(out, true, sizeof(V) * unroll);
  V* to = static_cast<V*>(a);
  const V* from = static_cast<const V*>(b);
  each_tile<unroll>(push, [&](u64 first, u32 step) {
    V v[unroll];
#pragma unroll
    for (int u = 0; u < unroll; ++u) v[u] = load<Hint::streaming>(from + first + static_cast<u32>(u) * step);
#pragma unroll
    for (int u = 0; u < unroll; ++u) store(to + first + static_cast<u32>(u) * step, v[u]);
  });
}

template <class V, int unroll>
KLAB_INLINE void triad_all(void* a, const void* b, const void* c, u32* out, const MemoryPush& push) {
  if (push.tiles == 0) return tell(out, true, sizeof(V) * unroll);
  V* to = static_cast<V*>(a);
  const V *left = static_cast<const V*>(b), *right = static_cast<const V*>(c);
  each_tile<unroll>(push, [&](u64 first, u32 step) {
    V x[unroll], y[unroll];
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      x[u] = load<Hint::streaming>(left + first + static_cast<u32>(u) * step);
      y[u] = load<Hint::streaming>(right + first + static_cast<u32>(u) * step);
    }
#pragma unroll
    for (int u = 0; u < unroll; ++u)
      store(to + first + static_cast<u32>(u) * step, triad(x[u], y[u], push.scale));
  });
}

/// Word i becomes a float in [1, 2) that depends on i and the seed: no two arrays alike, no compressible memory.
KLAB_INLINE void fill_all(void* a, u32* out, const MemoryPush& push) {
  if (push.tiles == 0) return tell(out, true, 16);
  Vec4* to = static_cast<Vec4*>(a);
  each_tile<1>(push, [&](u64 first, u32) {
    const auto word = [&](u32 k) {
      u32 x = (static_cast<u32>(first) * 4 + k) * 0x9e3779b9u + push.value;
      x = (x ^ (x >> 16)) * 0x21f0aaadu;
      x = (x ^ (x >> 15)) * 0x735a2d97u;
      return (x >> 9) | 0x3f800000u;
    };
    to[first] = Vec4{word(0), word(1), word(2), word(3)};
  });
}

#if !defined(__HIP__)
// Bulk copies between global and shared memory (compute capability 9.0): one thread a block keeps a ring of stages
// under way, and no register holds data. Tiles are kBulkStage bytes here, of one "thread".
constexpr u32 kBulkStage = 16 * 1024, kBulkStages = 12;

KLAB_INLINE u32 shared_address(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define KLAB_HAS_BULK 1
KLAB_INLINE void barrier_wait(u32 barrier, u32 parity) {
  u32 done = 0;
  while (done == 0)
    asm volatile(
        "{\n .reg .pred p;\n mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n selp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
}
KLAB_INLINE void bulk_load(u32 to, const void* from, u32 bytes, u32 barrier) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}
KLAB_INLINE void bulk_store(void* to, u32 from, u32 bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

template <bool writes>
KLAB_INLINE void bulk_all(unsigned char* to, const unsigned char* from, u32* out, const MemoryPush& push,
                          unsigned char* raw) {
  __shared__ alignas(8) u64 barriers[kBulkStages];
  // A thread's share of a tile, were it a block of 32 that divides it.
  if (push.tiles == 0) return tell(out, true, kBulkStage / 32);
  if (KLAB_THREAD != 0) return;
  const u32 stages = (shared_address(raw) + 127u) & ~127u;
  for (u32 s = 0; s < kBulkStages; ++s)
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&barriers[s])) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  // Two stages are left for stores whose reading of shared memory has not ended.
  constexpr u32 kAhead = writes ? kBulkStages - 2 : kBulkStages;
  const u32 mine = push.tiles > KLAB_BLOCK ? (push.tiles - KLAB_BLOCK + KLAB_BLOCKS - 1) / KLAB_BLOCKS : 0;
  const auto offset = [&](u32 j) { return (static_cast<u64>(j) * KLAB_BLOCKS + KLAB_BLOCK) * kBulkStage; };
  const auto start = [&](u32 j) {
    const u32 s = j % kBulkStages;
    bulk_load(stages + s * kBulkStage, from + offset(j), kBulkStage, shared_address(&barriers[s]));
  };
  for (u32 j = 0; j < kAhead && j < mine; ++j) start(j);
  for (u32 j = 0; j < mine; ++j) {
    const u32 s = j % kBulkStages;
    barrier_wait(shared_address(&barriers[s]), j / kBulkStages & 1u);
    if constexpr (writes) {
      bulk_store(to + offset(j), stages + s * kBulkStage, kBulkStage);
      if (j + kAhead < mine) asm volatile("cp.async.bulk.wait_group.read 2;" ::: "memory");
    }
    if (j + kAhead < mine) start(j + kAhead);
  }
  if constexpr (writes) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
#endif
#endif
