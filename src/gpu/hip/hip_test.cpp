// SPDX-License-Identifier: Apache-2.0
// What of the HIP backend needs no GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "bundle/hsaco.h"
#include "gpu/hip/hostcall.h"
#include "gpu/hip/kernarg.h"
#include "gpu/parameters.h"
#include "kernels/kernels.h"

namespace klab::gpu::hip {
namespace {

std::uint64_t word(const std::vector<std::byte>& bytes, std::size_t at, std::size_t size) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + at, size);
  return value;
}

/// A kernel with two arguments and hidden ones as code object version 5 has them.
bundle::HsacoKernel version5() {
  bundle::HsacoKernel k;
  k.name = "k";
  k.kernarg_bytes = 16 + 256;
  k.arguments = {{"p", "", "global_buffer", 0, 8}, {"n", "", "by_value", 8, 4}};
  auto add = [&](const char* kind, std::uint32_t offset, std::uint32_t size) {
    k.arguments.push_back({"", "", kind, 16 + offset, size});
  };
  add("hidden_block_count_x", 0, 4), add("hidden_block_count_y", 4, 4), add("hidden_block_count_z", 8, 4);
  add("hidden_group_size_x", 12, 2), add("hidden_group_size_y", 14, 2), add("hidden_group_size_z", 16, 2);
  add("hidden_remainder_x", 18, 2), add("hidden_remainder_y", 20, 2), add("hidden_remainder_z", 22, 2);
  add("hidden_global_offset_x", 40, 8), add("hidden_grid_dims", 64, 2), add("hidden_hostcall_buffer", 80, 8);
  add("hidden_multigrid_sync_arg", 88, 8), add("hidden_heap_v1", 96, 8), add("hidden_default_queue", 104, 8);
  add("hidden_dynamic_lds_size", 120, 4), add("hidden_private_base", 192, 4), add("hidden_shared_base", 196, 4);
  add("hidden_queue_ptr", 200, 8), add("hidden_from_the_future", 208, 8);
  return k;
}

TEST(HipKernarg, what_the_program_gave_is_kept_and_hidden_arguments_are_made_anew) {
  std::vector<std::byte> captured(300, std::byte{0xee});
  const std::uint64_t pointer = 0x7f0012345678;
  std::memcpy(captured.data(), &pointer, 8);
  const HiddenValues values{.threads = {130, 3, 2},
                            .block = {64, 2, 1},
                            .dynamic_shared_bytes = 4096,
                            .shared_base = 0x10000,
                            .private_base = 0x20000,
                            .queue = 0x1111,
                            .hostcall = 0x2222,
                            .grid_sync = 0x3333};
  std::vector<std::string> unknown;
  const auto s = make_kernarg(version5(), captured, values, unknown);
  ASSERT_EQ(s.size(), 272u);
  EXPECT_EQ(word(s, 0, 8), pointer);
  EXPECT_EQ(word(s, 8, 4), 0xeeeeeeeeu);
  EXPECT_EQ(word(s, 16, 4), 2u) << "whole blocks";
  EXPECT_EQ(word(s, 20, 4), 1u);
  EXPECT_EQ(word(s, 24, 4), 2u);
  EXPECT_EQ(word(s, 28, 2), 64u);
  EXPECT_EQ(word(s, 30, 2), 2u);
  EXPECT_EQ(word(s, 32, 2), 1u);
  EXPECT_EQ(word(s, 34, 2), 2u) << "130 is two blocks of 64 and 2";
  EXPECT_EQ(word(s, 36, 2), 1u);
  EXPECT_EQ(word(s, 38, 2), 0u);
  EXPECT_EQ(word(s, 56, 8), 0u);
  EXPECT_EQ(word(s, 80, 2), 3u);
  EXPECT_EQ(word(s, 96, 8), 0x2222u);
  EXPECT_EQ(word(s, 104, 8), 0x3333u);
  EXPECT_EQ(word(s, 112, 8), 0u);
  EXPECT_EQ(word(s, 136, 4), 4096u);
  EXPECT_EQ(word(s, 208, 4), 0x20000u);
  EXPECT_EQ(word(s, 212, 4), 0x10000u);
  EXPECT_EQ(word(s, 216, 8), 0x1111u);
  EXPECT_EQ(word(s, 224, 8), 0u);
  EXPECT_EQ(unknown, std::vector<std::string>{"hidden_from_the_future"});
}

TEST(HipKernarg, a_short_capture_is_padded_and_layouts_leave_hidden_arguments_out) {
  std::vector<std::string> unknown;
  const auto s = make_kernarg(version5(), std::vector<std::byte>(4, std::byte{1}), {}, unknown);
  EXPECT_EQ(word(s, 0, 8), 0x01010101u);
  const auto own = explicit_arguments(version5());
  ASSERT_EQ(own.size(), 2u);
  const std::vector<bundle::Argument> captured{
      {0, 8, "p", "global_buffer"}, {8, 4, "n", "by_value"}, {16, 8, "", "hidden_hostcall_buffer"}};
  EXPECT_EQ(layout_difference(explicit_arguments(captured), own), "");
}

TEST(HipHostcall, a_request_is_answered_with_nothing_and_its_packet_is_free_again) {
  constexpr std::uint64_t kWaves = 10;
  std::vector<std::uint64_t> memory((Hostcall::bytes(kWaves) + 4096) / 8);
  void* const at = reinterpret_cast<void*>((reinterpret_cast<std::uint64_t>(memory.data()) + 4095) / 4096 * 4096);
  Hostcall calls(at, kWaves, {0x77});
  auto* const words = static_cast<std::uint64_t*>(at);  // headers, payloads, doorbell, free, ready, mask
  EXPECT_EQ(words[2], 0x77u);
  const std::uint64_t packet = words[3], index = packet & words[5];
  ASSERT_NE(packet, 0u);
  auto* const header = reinterpret_cast<std::uint64_t*>(words[0] + index * 24);
  auto* const slots = reinterpret_cast<std::uint64_t*>(words[1] + index * 4096);
  words[3] = header[0];   // as a wave takes it
  header[0] = 0;
  header[1] = 0b101;      // two lanes
  header[2] = 3ull | 1ull << 32;  // a service, ready
  slots[0] = slots[16] = 99;
  words[4] = packet;
  calls.serve();
  EXPECT_EQ(header[2] >> 32, 0u);
  EXPECT_EQ(slots[0], 0u);
  EXPECT_EQ(slots[16], 0u);
  EXPECT_EQ(words[4], 0u);
  EXPECT_EQ(calls.take_count(), 2u);
  // Every packet can be taken once.
  std::uint64_t count = 1;
  for (std::uint64_t next = words[3]; next != 0; ++count)
    next = *reinterpret_cast<std::uint64_t*>(words[0] + (next & words[5]) * 24);
  EXPECT_EQ(count, words[5] + 1);
}

/// Klab's own kernels are code objects at hand, for processors of several families.
TEST(HipCode, klab_s_own_kernels_are_read_whole) {
  int seen = 0;
  for (const char* arch : {"gfx906", "gfx90a", "gfx1030", "gfx1100"}) {
    const auto bytes = kernels::hip_code(arch, false);
    if (bytes.empty()) continue;
    ++seen;
    const auto code = bundle::read_hsaco(bytes);
    ASSERT_TRUE(code) << arch << ": " << code.error().what;
    EXPECT_TRUE(code->arch.starts_with(arch)) << code->arch;
    for (const char* name : {"klab_hash", "klab_hash_finish", "klab_compare", "klab_poison", "klab_copy", "klab_fill"}) {
      const bundle::HsacoKernel* k = code->kernel(name);
      ASSERT_NE(k, nullptr) << name;
      EXPECT_EQ(code->kernel(std::string(name) + ".kd"), k);
      EXPECT_GT(k->vector_registers.value_or(0), 0u) << name;
      EXPECT_GT(k->code.size(), 16u) << name;
      EXPECT_TRUE(k->wavefront_size == 32 || k->wavefront_size == 64);
    }
    EXPECT_EQ(code->kernel("klab_copy")->explicit_bytes(), 24u);
    EXPECT_EQ(code->kernel("none"), nullptr);
    EXPECT_TRUE(code->undefined.empty());
  }
  EXPECT_GT(seen, 0);
  EXPECT_TRUE(kernels::hip_code("gfx90a:sramecc+:xnack-", false).data() == kernels::hip_code("gfx90a", false).data());
  EXPECT_TRUE(kernels::hip_code("gfx1", false).empty());
}

TEST(HipCode, damage_is_refused_or_harmless) {
  const auto whole = kernels::hip_code("gfx1030", false);
  if (whole.empty()) GTEST_SKIP() << "this build has no code for gfx1030";
  for (std::size_t size = 0; size < whole.size(); size += size < 4096 ? 7 : 509)
    EXPECT_FALSE(bundle::read_hsaco(whole.first(size))) << size;
  std::vector<std::byte> bytes(whole.begin(), whole.end());
  for (std::size_t at = 0; at < std::min<std::size_t>(bytes.size(), 8192); ++at) {
    bytes[at] ^= std::byte{0xff};
    (void)bundle::read_hsaco(bytes);
    bytes[at] ^= std::byte{0xff};
  }
}

TEST(HipCode, a_bundle_s_entry_is_picked_by_processor_and_features) {
  EXPECT_TRUE(bundle::arch_fits("gfx90a", "gfx90a:sramecc+:xnack-"));
  EXPECT_TRUE(bundle::arch_fits("gfx90a:xnack-", "gfx90a:sramecc+:xnack-"));
  EXPECT_FALSE(bundle::arch_fits("gfx90a:xnack+", "gfx90a:sramecc+:xnack-"));
  EXPECT_FALSE(bundle::arch_fits("gfx906", "gfx90a"));
  EXPECT_FALSE(bundle::arch_fits("gfx1030", "gfx1031"));
  std::string file = "__CLANG_OFFLOAD_BUNDLE__";
  auto number = [&](std::uint64_t v) { file.append(reinterpret_cast<const char*>(&v), 8); };
  const std::vector<std::pair<std::string, std::string>> entries{{"host-x86_64-unknown-linux--", ""},
                                                                 {"hipv4-amdgcn-amd-amdhsa--gfx90a", "A"},
                                                                 {"hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-", "B"},
                                                                 {"hip-amdgcn-amd-amdhsa-gfx906", "C"}};
  number(entries.size());
  std::uint64_t at = 512;
  for (const auto& [id, bytes] : entries) {
    number(at), number(bytes.size()), number(id.size());
    file += id;
    at += bytes.size();
  }
  file.resize(512);
  for (const auto& [id, bytes] : entries) file += bytes;
  const auto bytes = std::as_bytes(std::span(file.data(), file.size()));
  auto picked = [&](const char* arch) {
    const auto found = bundle::hsaco_for(bytes, arch);
    return found ? std::string(reinterpret_cast<const char*>(found->data()), found->size()) : found.error().what;
  };
  EXPECT_EQ(picked("gfx90a:sramecc+:xnack-"), "B");
  EXPECT_EQ(picked("gfx90a:sramecc+:xnack+"), "A");
  EXPECT_EQ(picked("gfx906:sramecc-:xnack-"), "C");
  EXPECT_THAT(picked("gfx1030"), ::testing::HasSubstr("it has gfx90a, gfx90a:xnack-, gfx906"));
  for (std::size_t size = 0; size < 400; ++size) EXPECT_FALSE(bundle::read_offload_bundle(bytes.first(size))) << size;
}

}  // namespace
}  // namespace klab::gpu::hip
