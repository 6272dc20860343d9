// SPDX-License-Identifier: Apache-2.0
// The CUDA kernels' per-thread work, run here thread by thread, against the reference on the host.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/cuda_arithmetic.h"
#include "kernels/kernels.h"

namespace klab::kernels {
namespace {

using cuda::u32;

struct Buffer {
  std::vector<unsigned char> storage;
  unsigned char* data = nullptr;  // `shift` bytes past a multiple of 16
  Buffer(std::size_t size, std::size_t shift, unsigned seed) : storage(size + 64) {
    std::mt19937 random(seed);
    for (auto& b : storage) b = static_cast<unsigned char>(random());
    data = storage.data() + (16 - reinterpret_cast<std::uintptr_t>(storage.data()) % 16) % 16 + shift;
  }
};

/// As klab_hash and klab_hash_finish do it, with `lanes` threads.
std::vector<Hash> hash_by_threads(const std::vector<cuda::Chunk>& list, u32 lanes) {
  std::vector<Hash> out;
  for (std::size_t at = 0; at < list.size(); at += cuda::kTogether) {
    const int here = static_cast<int>(std::min<std::size_t>(cuda::kTogether, list.size() - at));
    cuda::Quad sums[cuda::kTogether] = {};
    for (u32 lane = 0; lane < lanes; ++lane) cuda::hash_share(&list[at], here, lane, lanes, sums);
    for (int c = 0; c < here; ++c) {
      const cuda::Quad q = cuda::finish(sums[c], list[at + static_cast<std::size_t>(c)].size);
      out.push_back({q.x, q.y, q.z, q.w});
    }
  }
  return out;
}

TEST(CudaKernels, hash_as_the_host_does_for_any_size_alignment_and_thread_count) {
  for (const std::size_t shift : {0u, 4u, 3u})
    for (const u32 lanes : {1u, 32u, 256u, 1024u}) {
      std::vector<Buffer> buffers;
      std::vector<cuda::Chunk> list;
      unsigned seed = 1;
      for (const u32 size :
           {0u, 1u, 3u, 4u, 15u, 16u, 17u, 255u, 4096u, 4099u, 65536u, 65536u, 65536u, 65536u, 65533u})
        buffers.emplace_back(size, shift, seed++), list.push_back({nullptr, size});
      for (std::size_t i = 0; i < list.size(); ++i) list[i].data = buffers[i].data;
      const auto got = hash_by_threads(list, lanes);
      ASSERT_EQ(got.size(), list.size());
      for (std::size_t i = 0; i < list.size(); ++i)
        EXPECT_EQ(got[i], hash_on_host(std::as_bytes(std::span(list[i].data, list[i].size))))
            << list[i].size << " bytes, shifted by " << shift << ", " << lanes << " threads";
    }
}

TEST(CudaKernels, compare_counts_bytes_and_finds_the_first) {
  for (const std::size_t shift : {0u, 4u})
    for (const u32 size : {1u, 5u, 16u, 4099u}) {
      const Buffer a(size, shift, 7);
      Buffer b(size, shift, 7);
      u32 count = 0, first = 0xffffffffu;
      cuda::compare_share(a.data, b.data, size, 0, 1, count, first);
      EXPECT_EQ(count, 0u);
      b.data[size - 1] ^= 1;
      b.data[size / 2] ^= 0x80;
      b.data[size] ^= 1;  // past the end
      for (u32 lane = 0; lane < 64; ++lane) cuda::compare_share(a.data, b.data, size, lane, 64, count, first);
      EXPECT_EQ(count, size == 1 ? (a.data[0] != b.data[0] ? 1u : 0u) : 2u) << size;
      EXPECT_EQ(first, size / 2) << size;
    }
}

TEST(CudaKernels, poison_writes_what_the_mask_names_and_nothing_else) {
  constexpr u32 kSize = 1003;
  Buffer data(kSize, 0, 3);
  const Buffer mask(kSize / 8 + 1, 0, 4);
  const auto before = data.storage;
  const std::size_t start = static_cast<std::size_t>(data.data - data.storage.data());
  for (u32 lane = 0; lane < 32; ++lane)
    cuda::poison_share(data.data, mask.data, kSize, 0x03020100, 0x07060504, lane, 32);
  for (std::size_t i = 0; i < before.size(); ++i) {
    const bool inside = i >= start && i < start + kSize;
    const std::size_t k = i - start;
    const bool named = inside && (mask.data[k / 8] >> (k % 8) & 1) != 0;
    EXPECT_EQ(data.storage[i], named ? k % 8 : before[i]) << i;
  }
}

TEST(CudaKernels, flush_changes_each_word_once) {
  for (const std::size_t shift : {0u, 4u}) {
    Buffer data(403 * 4, shift, 5);
    std::vector<u32> before(403), after(403);
    std::memcpy(before.data(), data.data, 403 * 4);
    for (u32 lane = 0; lane < 32; ++lane)
      cuda::flush_share(reinterpret_cast<u32*>(data.data), 403, 9, lane, 32);
    std::memcpy(after.data(), data.data, 403 * 4);
    for (std::size_t i = 0; i < 403; ++i) EXPECT_EQ(after[i], before[i] * 0x9e3779b1u + 9);
  }
}

TEST(CudaKernels, patch_swaps_only_what_it_put_there) {
  std::uint64_t words[3] = {10, 20, 30};
  const cuda::PatchEntry entries[] = {{reinterpret_cast<cuda::u64>(&words[0]), 10, 100},
                                      {reinterpret_cast<cuda::u64>(&words[1]), 99, 100}};
  for (const auto& e : entries) cuda::patch_one(e, false);
  EXPECT_EQ(words[0], 100u);
  EXPECT_EQ(words[1], 20u);
  words[2] = 5;
  for (const auto& e : entries) cuda::patch_one(e, true);
  EXPECT_EQ(words[0], 10u);
  EXPECT_EQ(words[1], 20u);
}

float float_of(cuda::u64 bits) {
  const double d = cuda::as_double(bits);
  return static_cast<float>(d);
}

TEST(CudaValues, halves_and_brain_floats_widen_to_what_they_are) {
  EXPECT_EQ(float_of(cuda::widen(0x3c00, 0)), 1.0f);
  EXPECT_EQ(float_of(cuda::widen(0xfbff, 0)), -65504.0f);
  EXPECT_EQ(float_of(cuda::widen(0x0001, 0)), 0x1p-24f);
  EXPECT_EQ(float_of(cuda::widen(0x03ff, 0)), 0x3ffp-24f);
  EXPECT_EQ(float_of(cuda::widen(0xc049, 1)), -3.140625f);
  for (const float v : {0.0f, -1.5f, 1e-40f, -1e-45f, 3e38f}) {
    u32 bits = 0;
    std::memcpy(&bits, &v, 4);
    EXPECT_EQ(float_of(cuda::widen(bits, 2)), v);
  }
  EXPECT_TRUE(std::isinf(float_of(cuda::widen(0x7c00, 0))));
  EXPECT_TRUE(std::isnan(float_of(cuda::widen(0x7e00, 0))));
}

TEST(CudaValues, counts_what_is_beyond_and_finds_the_first_whatever_the_threads) {
  std::vector<float> wanted(1000), got;
  for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] = static_cast<float>(i) - 500;
  got = wanted;
  got[17] += 0.5f, got[400] = NAN, got[900] += 1e-3f;
  constexpr u32 kKey = 0x1234567;
  std::vector<u32> veiled(1000);
  std::memcpy(veiled.data(), wanted.data(), 4000);
  for (u32 i = 0; i < 1000; ++i) veiled[i] ^= veil(i, kKey);
  const cuda::Values v{0, 0, 0, 1000, 4, 1, 2, 0, 1e-2f, 0, kKey};
  for (const u32 lanes : {1u, 32u, 999u, 5000u}) {
    u32 beyond = 0, first = 0xffffffffu, different = 0;
    for (u32 lane = 0; lane < lanes; ++lane)
      cuda::values_share(reinterpret_cast<const unsigned char*>(got.data()),
                         reinterpret_cast<const unsigned char*>(veiled.data()), v, lane, lanes, beyond, first, different);
    EXPECT_EQ(beyond, 2u);
    EXPECT_EQ(first, 17u);
    EXPECT_EQ(different, 3u);
  }
}

}  // namespace
}  // namespace klab::kernels
