// SPDX-License-Identifier: Apache-2.0
// Klab's own kernels on a device: the hash's properties, compare, flush and poison.
#include <limits>
#include <cstring>
#include <algorithm>
#include <random>
#include <set>

#include "gpu/vulkan/test_support.h"
#include "kernels/kernels.h"

namespace klab::gpu {
namespace {

using kernels::Hash;

class VulkanKernelsTest : public VulkanTest {
 protected:
  CodeId builtin(const char* name) {
    auto code = device->load(device->builtin_kernel(name));
    EXPECT_TRUE(code) << name << ": " << code.error().what;
    return code.value_or(0);
  }
  template <class T>
  static std::span<const std::byte> push_of(const T& push) {
    return std::as_bytes(std::span(&push, 1));
  }

  std::vector<Hash> hash(MemoryId data, std::uint64_t size, const std::vector<kernels::HashChunk>& chunks) {
    const MemoryId list = memory_with(chunks), out = memory(chunks.size() * sizeof(Hash));
    const kernels::HashPush push{static_cast<std::uint32_t>(chunks.size()), 0};
    LaunchSpec spec = spec_of(builtin("hash"), {{data, size}, {list, chunks.size() * 8}, {out, chunks.size() * 16}}, push_of(push));
    spec.grid = {static_cast<std::uint32_t>(chunks.size() + 1) / 2, 2, 1};
    run({Step::launch_of(prepare(spec), false)});
    return read<Hash>(out, chunks.size());
  }
};

std::vector<std::byte> noise(std::size_t size, std::uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(size);
  for (auto& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

TEST_F(VulkanKernelsTest, hash_of_any_size_is_the_same_as_on_the_host) {
  const auto data = noise((1u << 20) + 4096);
  const MemoryId m = memory_with(data);
  std::vector<kernels::HashChunk> chunks;
  for (std::uint32_t size : {0u, 1u, 2u, 3u, 4u, 5u, 255u, 256u, 1023u, 1024u, 1025u, 4099u, 1u << 20}) chunks.push_back({64, size});
  const std::uint32_t end = static_cast<std::uint32_t>(data.size());
  chunks.push_back({end - 8, 8});
  const auto hashes = hash(m, data.size(), chunks);
  for (std::size_t i = 0; i < chunks.size(); ++i)
    EXPECT_EQ(hashes[i], kernels::hash_on_host(std::span(data).subspan(chunks[i].offset, chunks[i].size))) << chunks[i].size;
}

TEST_F(VulkanKernelsTest, hash_of_a_buffer_whose_size_is_no_multiple_of_four_covers_its_last_bytes) {
  auto data = noise(1027);
  const MemoryId m = memory_with(data);
  const Hash before = hash(m, data.size(), {{0, 1027}})[0];
  EXPECT_EQ(before, kernels::hash_on_host(data));
  data.back() ^= std::byte{1};
  ASSERT_TRUE(device->upload(m, 0, data));
  EXPECT_NE(hash(m, data.size(), {{0, 1027}})[0], before);
}

TEST_F(VulkanKernelsTest, hash_by_address_is_the_same_as_by_binding) {
  if (!device->abilities().device_addresses) GTEST_SKIP() << "no device addresses";
  const auto data = noise(300'000);
  const MemoryRequest request{.size = data.size(), .needs_address = true};
  const Placed placed = device->place(std::span(&request, 1), false)->front();
  ASSERT_TRUE(device->upload(placed.id, 0, data));
  const std::vector<kernels::HashAddressChunk> chunks{{placed.address, 4096}, {placed.address + 4096, 777}, {placed.address + 4, 299'995}};
  const MemoryId list = memory_with(chunks), out = memory(3 * 16);
  const kernels::HashPush push{3, 0};
  LaunchSpec spec = spec_of(builtin("hash_address"), {{list, 48}, {out, 48}}, push_of(push));
  spec.grid = {3, 1, 1};
  run({Step::launch_of(prepare(spec), false)});
  const auto hashes = read<Hash>(out, 3);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(hashes[i], kernels::hash_on_host(std::span(data).subspan(chunks[i].address - placed.address, chunks[i].size))) << i;
}

TEST(HashKernel, every_bit_flip_of_a_chunk_changes_two_words_of_the_hash) {
  auto data = noise(4096);
  const Hash before = kernels::hash_on_host(data);
  for (std::size_t bit = 0; bit < data.size() * 8; ++bit) {
    data[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    const Hash after = kernels::hash_on_host(data);
    int changed = 0;
    for (int k = 0; k < 4; ++k) changed += after[k] != before[k];
    ASSERT_GE(changed, 2) << bit;
    data[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
  }
}

TEST(HashKernel, swaps_and_changes_of_equal_sum_do_not_collide) {
  std::mt19937 random(7);
  std::vector<std::uint32_t> words(1024);
  for (auto& w : words) w = random() % 16;  // small values, as counters and zeros are
  std::set<Hash> seen{kernels::hash_on_host(bytes_of(words))};
  std::size_t expected = 1;
  for (int i = 0; i < 20'000; ++i) {
    auto changed = words;
    const std::size_t a = random() % words.size(), b = random() % words.size();
    if (a == b) continue;
    if (i % 2 == 0) {
      if (words[a] == words[b]) continue;
      std::swap(changed[a], changed[b]);
    } else {
      const std::uint32_t d = 1 + random() % 1000;
      changed[a] += d;
      changed[b] -= d;
    }
    if (seen.insert(kernels::hash_on_host(bytes_of(changed))).second) ++expected;
    // The same change may be drawn twice, so a collision is looked for by undoing it.
    ASSERT_NE(kernels::hash_on_host(bytes_of(changed)), kernels::hash_on_host(bytes_of(words)));
  }
  EXPECT_GT(expected, 15'000u);
}

TEST(HashKernel, each_word_of_the_hash_alone_is_as_good_as_random) {
  // 50,000 single-word changes: a 32-bit word should collide with the original 50,000 / 2^32 times, that is never.
  std::vector<std::uint32_t> words(512, 0);
  const Hash before = kernels::hash_on_host(bytes_of(words));
  int equal[4] = {};
  for (std::uint32_t i = 0; i < 50'000; ++i) {
    words[i % 512] = i / 512 + 1;
    const Hash after = kernels::hash_on_host(bytes_of(words));
    for (int k = 0; k < 4; ++k) equal[k] += after[k] == before[k];
    words[i % 512] = 0;
  }
  for (int k = 0; k < 4; ++k) EXPECT_LE(equal[k], 1) << k;
  // Size is part of it: zeros of different lengths differ.
  std::set<Hash> zeros;
  for (std::size_t n = 0; n < 600; ++n) zeros.insert(kernels::hash_on_host(std::vector<std::byte>(n)));
  EXPECT_EQ(zeros.size(), 600u);
}

TEST_F(VulkanKernelsTest, compare_counts_bytes_and_finds_the_first) {
  auto a = noise(70'001), b = a;
  for (std::size_t at : {std::size_t{1234}, std::size_t{1235}, std::size_t{40'000}, std::size_t{70'000}}) b[at] ^= std::byte{0x10};
  const MemoryId ma = memory_with(a), mb = memory_with(b);
  const MemoryId out = memory_with(std::vector<kernels::CompareResult>(3));
  const CodeId code = builtin("compare");
  auto launch = [&](kernels::ComparePush push) {
    LaunchSpec spec = spec_of(code, {{ma, 70'001}, {mb, 70'001}, {out, 24}}, push_of(push));
    spec.grid = {kernels::striding_grid(push.size), 1, 1};
    return Step::launch_of(prepare(spec), false);
  };
  run({launch({0, 0, 70'001, 0}), launch({2000, 2000, 38'000, 1}), launch({1232, 1232, 70'001 - 1232 - 1, 2})});
  const auto r = read<kernels::CompareResult>(out, 3);
  EXPECT_EQ(r[0].differing_bytes, 4u);
  EXPECT_EQ(r[0].first_offset, 1234u);
  EXPECT_EQ(r[1].differing_bytes, 0u);
  EXPECT_EQ(r[1].first_offset, 0xffffffffu);
  EXPECT_EQ(r[2].differing_bytes, 3u);
  EXPECT_EQ(r[2].first_offset, 2u);
}

TEST_F(VulkanKernelsTest, poison_touches_masked_bytes_only) {
  const auto before = noise(5003);
  std::vector<std::byte> mask = noise(640, 9);
  const MemoryId data = memory_with(before), bits = memory_with(mask);
  kernels::PoisonPush push{.offset = 100, .size = 4903};
  push.pattern[0] = 0x03020100;
  push.pattern[1] = 0x07060504;
  LaunchSpec spec = spec_of(builtin("poison"), {{data, 5003}, {bits, 640}}, push_of(push));
  spec.grid = {kernels::striding_grid(push.size), 1, 1};
  run({Step::launch_of(prepare(spec), false)});
  const auto after = read<std::byte>(data, 5003);
  for (std::size_t i = 0; i < after.size(); ++i) {
    const std::size_t k = i - 100;
    const bool poisoned = i >= 100 && (static_cast<unsigned>(mask[k / 8]) >> k % 8 & 1);
    ASSERT_EQ(after[i], poisoned ? static_cast<std::byte>(k % 8) : before[i]) << i;
  }
}

TEST_F(VulkanKernelsTest, flush_reads_and_writes_every_word) {
  const auto before = std::vector<std::uint32_t>(100'000, 3);
  const MemoryId data = memory_with(before);
  const kernels::FlushPush push{100'000, 17};
  LaunchSpec spec = spec_of(builtin("flush"), {{data, 400'000}}, push_of(push));
  spec.grid = {kernels::striding_grid(400'000), 1, 1};
  run({Step::launch_of(prepare(spec), false)});
  const std::vector<std::uint32_t> written(100'000, 3 * 0x9e3779b1u + 17);
  EXPECT_EQ(read<std::uint32_t>(data, 100'000), written);
  const kernels::FlushPush only_read{100'000, 0};
  spec = spec_of(builtin("flush"), {{data, 400'000}}, push_of(only_read));
  spec.grid = {kernels::striding_grid(400'000), 1, 1};
  run({Step::launch_of(prepare(spec), false)});
  EXPECT_EQ(read<std::uint32_t>(data, 100'000), written) << "value 0 only reads";
}

TEST_F(VulkanKernelsTest, a_kernel_that_does_not_exist_has_no_code) {
  EXPECT_TRUE(device->builtin_kernel("frobnicate").empty());
}

TEST_F(VulkanKernelsTest, values_beyond_a_tolerance_are_counted_and_the_first_is_found) {
  constexpr std::uint32_t kCount = 5000, kKey = 77;
  std::vector<float> wanted(kCount), got;
  for (std::uint32_t i = 0; i < kCount; ++i) wanted[i] = static_cast<float>(i % 97) - 48.0f;
  wanted[10] = std::numeric_limits<float>::quiet_NaN(), wanted[11] = std::numeric_limits<float>::infinity();
  got = wanted;
  got[123] += 0.5f, got[4000] = std::numeric_limits<float>::quiet_NaN(), got[4500] += 1e-4f, got[11] = 3e38f;
  std::vector<std::uint32_t> veiled(kCount);
  std::memcpy(veiled.data(), wanted.data(), kCount * 4);
  for (std::uint32_t i = 0; i < kCount; ++i) veiled[i] ^= kernels::veil(i, kKey);
  const MemoryId a = memory_with(got), e = memory_with(veiled), out = memory_with(std::vector<kernels::ValuesResult>(1));
  const kernels::ValuesPush push{.count = kCount, .absolute = 1e-2f, .key = kKey};
  LaunchSpec spec = spec_of(builtin("compare_values"), {{a, kCount * 4}, {e, kCount * 4}, {out, 16}}, push_of(push));
  spec.grid = {kernels::striding_grid(kCount * 4), 1, 1};
  run({Step::launch_of(prepare(spec), false)});
  const auto r = read<kernels::ValuesResult>(out, 1)[0];
  EXPECT_EQ(r.beyond, 3u);
  EXPECT_EQ(r.first, 11u);
  EXPECT_EQ(r.different, 4u);
}

TEST_F(VulkanKernelsTest, halves_in_records_are_compared_where_they_lie) {
  // Records of {half x, half y, uint n}: both halves, not n.
  const std::vector<std::uint16_t> wanted{0x3c00, 0x4000, 1, 2, 0x4200, 0x4400, 3, 4};
  auto got = wanted;
  got[2] = 99, got[5] = 0x4500;  // the integer differs, and y of the second record
  std::vector<std::uint32_t> veiled(4);
  std::memcpy(veiled.data(), wanted.data(), 16);
  for (std::uint32_t i = 0; i < 4; ++i) veiled[i] ^= kernels::veil(i, 5);
  const MemoryId a = memory_with(got), e = memory_with(veiled), out = memory_with(std::vector<kernels::ValuesResult>(1));
  const kernels::ValuesPush push{.count = 4, .stride = 8, .per = 2, .type = kernels::ValueType::f16, .absolute = 0.1f, .key = 5};
  LaunchSpec spec = spec_of(builtin("compare_values"), {{a, 16}, {e, 16}, {out, 16}}, push_of(push));
  spec.grid = {1, 1, 1};
  run({Step::launch_of(prepare(spec), false)});
  const auto r = read<kernels::ValuesResult>(out, 1)[0];
  EXPECT_EQ(r.beyond, 1u);
  EXPECT_EQ(r.first, 3u);
}

TEST_F(VulkanKernelsTest, redzones_lie_around_memory_and_can_be_reached) {
  const MemoryRequest requests[] = {{.size = 1000}, {.size = 5000}};
  const auto placed = device->place(requests, false);
  ASSERT_TRUE(placed);
  const MemoryId ids[] = {(*placed)[0].id, (*placed)[1].id};
  const auto guards = device->guards(ids);
  ASSERT_TRUE(guards) << guards.error().what;
  for (const MemoryId id : ids)
    EXPECT_TRUE(std::any_of(guards->begin(), guards->end(), [&](const Guard& g) { return g.neighbour == id && !g.before; }));
  for (const Guard& g : *guards) {
    const std::vector<std::byte> pattern(g.size, std::byte{0x5a});
    ASSERT_TRUE(device->upload(g.memory, 0, pattern));
  }
  const std::vector<std::byte> zeros(1000);
  ASSERT_TRUE(device->upload(ids[0], 0, zeros));
  for (const Guard& g : *guards) {
    std::vector<std::byte> now(g.size);
    ASSERT_TRUE(device->download(g.memory, 0, now));
    EXPECT_EQ(now, std::vector<std::byte>(g.size, std::byte{0x5a})) << "memory and redzone overlap";
  }
}

}  // namespace
}  // namespace klab::gpu
