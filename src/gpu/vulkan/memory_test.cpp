// SPDX-License-Identifier: Apache-2.0
// Placement: exact addresses, collisions, ordinary memory, pools; and the address arithmetic alone.
#include <sys/mman.h>

#include "gpu/vulkan/host_ranges.h"
#include "gpu/vulkan/test_support.h"

namespace klab::gpu {
namespace {

constexpr std::uint64_t kBase = 0x500000000000;

class VulkanMemoryTest : public VulkanTest {
 protected:
  bool places_exactly() {
    return device->abilities().fixed_addresses && device->abilities().fixed_addresses_by == "imported host memory";
  }
};

TEST(HostRangesTest, merges_ranges_that_share_or_touch_a_page) {
  const auto merged = vulkan::merge_pages({{0x9010, 0x10}, {0x1100, 0x100}, {0x1800, 0x1000}, {0x3000, 1}, {0, 9}, {5, 0}}, 4096);
  ASSERT_EQ(merged.size(), 2u);
  EXPECT_EQ(merged[0].address, 0x1000u);
  EXPECT_EQ(merged[0].size, 0x3000u);
  EXPECT_EQ(merged[1].address, 0x9000u);
  EXPECT_EQ(merged[1].size, 0x1000u);
  EXPECT_TRUE(vulkan::merge_pages({{~0ull - 4, 100}, {1ull << 60, 1}, {4096, ~0ull}}, 4096).empty());
}

TEST(HostRangesTest, a_range_given_back_stays_reserved) {
  vulkan::HostRanges ranges;
  const AddressRange range{kBase, 0x10000};
  ranges.hold(std::span(&range, 1));
  for (int i = 0; i < 3; ++i) {
    auto claimed = ranges.claim({kBase + 0x1000, 0x2000});
    ASSERT_TRUE(claimed) << claimed.error().what;
    (*claimed)[0x1fff] = std::byte{1};
    ranges.unclaim({kBase + 0x1000, 0x2000});
  }
  EXPECT_EQ(mmap(reinterpret_cast<void*>(kBase + 0x1000), 0x1000, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
            MAP_FAILED);
  EXPECT_TRUE(ranges.claim({kBase - 0x1000, 0x3000})) << "a range that is held in part can be claimed";
  ranges.unclaim({kBase - 0x1000, 0x3000});
}

TEST_F(VulkanMemoryTest, a_shader_follows_a_pointer_to_a_captured_address) {
  if (!places_exactly()) GTEST_SKIP() << "this device does not place imported memory";
  device.reset();
  // Two regions that share a page, one that starts in mid-page, one far away.
  const std::vector<AddressRange> wanted{{kBase + 0x40, 0x100}, {kBase + 0x800, 0x20}, {kBase + 0x7654'3000, 3u << 20}};
  device = open_device(wanted);
  for (int round = 0; round < 3; ++round) {
    std::vector<MemoryRequest> requests;
    for (const auto& w : wanted) requests.push_back({.address = w.address, .size = w.size, .needs_address = true});
    requests.push_back({.size = 64});
    auto placed = device->place(requests, true);
    ASSERT_TRUE(placed) << placed.error().what;
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ((*placed)[i].address, wanted[i].address);
    const std::vector<std::uint64_t> table{kBase + 0x800, wanted[2].address + (3u << 20) - 4};
    ASSERT_TRUE(device->upload((*placed)[0].id, 0, bytes_of(table)));
    ASSERT_TRUE(device->upload((*placed)[1].id, 0, bytes_of(std::vector<std::uint32_t>{41})));
    const std::vector<std::uint32_t> last{1000};
    ASSERT_TRUE(device->upload((*placed)[2].id, (3u << 20) - 4, bytes_of(last)));
    const CodeId code = load(R"(#version 450
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 1) in;
layout(buffer_reference, std430, buffer_reference_align = 4) buffer U { uint v; };
layout(binding = 0) buffer T { U table[2]; };
layout(binding = 1) buffer O { uint o; };
void main() { o = table[0].v + table[1].v; table[0].v += 1; })");
    const MemoryId out = (*placed)[3].id;
    const LaunchId launch = prepare(spec_of(code, {{(*placed)[0].id, 16}, {out, 4}}));
    run({Step::launch_of(launch, false)});
    EXPECT_EQ(read<std::uint32_t>(out, 1)[0], 1041u);
    EXPECT_EQ(read<std::uint32_t>((*placed)[1].id, 1)[0], 42u);
    EXPECT_EQ(device->host_view((*placed)[1].id), reinterpret_cast<std::byte*>(kBase + 0x800));
    device->discard(launch);
    for (const Placed& p : *placed) device->release(p.id);
  }
}

TEST_F(VulkanMemoryTest, a_taken_address_is_a_collision_and_nothing_is_kept) {
  if (!places_exactly()) GTEST_SKIP() << "this device does not place imported memory";
  void* taken = mmap(reinterpret_cast<void*>(kBase + 0x100000), 4096, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  ASSERT_NE(taken, MAP_FAILED);
  static_cast<char*>(taken)[5] = 'x';
  const std::vector<MemoryRequest> requests{{.address = kBase, .size = 4096, .needs_address = true},
                                            {.address = kBase + 0x100000, .size = 4096, .needs_address = true}};
  auto placed = device->place(requests, true);
  ASSERT_FALSE(placed);
  EXPECT_EQ(placed.error().code, ErrorCode::address_collision);
  EXPECT_EQ(static_cast<char*>(taken)[5], 'x');
  munmap(taken, 4096);
  EXPECT_TRUE(device->place(requests, true)) << "the first range was kept, or the second is still thought taken";
}

TEST_F(VulkanMemoryTest, inexact_placement_ignores_addresses_but_gives_one) {
  std::vector<MemoryRequest> requests(300, {.address = kBase, .size = 100});
  requests.push_back({.size = 8u << 20});
  requests.push_back({.size = 0});
  auto placed = device->place(requests, false);
  ASSERT_TRUE(placed) << placed.error().what;
  for (std::size_t i = 0; i < 300; ++i) {
    const std::vector<std::byte> mine(100, static_cast<std::byte>(i));
    ASSERT_TRUE(device->upload((*placed)[i].id, 0, mine));
    EXPECT_EQ((*placed)[i].address != 0, device->abilities().device_addresses);
  }
  for (std::size_t i = 0; i < 300; ++i)
    EXPECT_EQ(read<std::byte>((*placed)[i].id, 100), std::vector<std::byte>(100, static_cast<std::byte>(i))) << i;
  for (const Placed& p : *placed) device->release(p.id);
}

TEST_F(VulkanMemoryTest, a_pool_is_honoured_or_refused_with_the_reason) {
  for (const std::string pool : {"device", "host"}) {
    const MemoryRequest request{.size = 4096, .pool = pool};
    auto placed = device->place(std::span(&request, 1), false);
    if (device->abilities().memory_pools) {
      ASSERT_TRUE(placed) << placed.error().what;
      EXPECT_NE(placed->front().pool.find(pool), std::string::npos);
      const std::vector<std::byte> bytes(4096, std::byte{7});
      ASSERT_TRUE(device->upload(placed->front().id, 0, bytes));
      EXPECT_EQ(read<std::byte>(placed->front().id, 4096), bytes);
    } else {
      ASSERT_FALSE(placed);
      EXPECT_EQ(placed.error().code, ErrorCode::unsupported);
      EXPECT_NE(placed.error().what.find("placement cannot differ"), std::string::npos) << placed.error().what;
    }
  }
}

TEST_F(VulkanMemoryTest, too_large_a_request_is_out_of_memory) {
  const MemoryRequest request{.size = 1ull << 46};
  auto placed = device->place(std::span(&request, 1), false);
  ASSERT_FALSE(placed);
  EXPECT_EQ(placed.error().code, ErrorCode::out_of_memory);
}

TEST_F(VulkanMemoryTest, transfers_outside_a_region_are_refused) {
  const MemoryId m = memory(64);
  std::vector<std::byte> bytes(128);
  EXPECT_FALSE(device->upload(m, 0, bytes));
  EXPECT_FALSE(device->download(m, ~0ull - 3, std::span(bytes).first(4)));
  EXPECT_FALSE(device->upload(m + 1000, 0, std::span(bytes).first(4)));
}

}  // namespace
}  // namespace klab::gpu
