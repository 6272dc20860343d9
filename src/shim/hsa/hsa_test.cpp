// SPDX-License-Identifier: Apache-2.0
// The parts of the shim that need no runtime. The rest runs in tests/test_hip.py, on the real one.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "shim/hsa/agents.h"
#include "shim/hsa/metadata.h"
#include "shim/hsa/packets.h"
#include "shim/launch/tracker.h"

namespace klab::shim {
namespace {

std::vector<std::byte> kept(const std::string& name) {
  std::ifstream file(KLAB_SOURCE_DIR "/src/shim/hsa/test_data/" + name, std::ios::binary);
  const std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
  std::vector<std::byte> all(bytes.size());
  if (!bytes.empty()) std::memcpy(all.data(), bytes.data(), bytes.size());
  return all;
}

std::vector<std::string> names_of(const AmdgpuCode& code) {
  std::vector<std::string> names;
  EXPECT_TRUE(code.each_kernel({}, [&](AmdgpuKernel&& k) { names.push_back(k.name); }));
  return names;
}

TEST(AmdgpuCode, tells_kernels_and_their_arguments_of_every_version) {
  for (const char* file : {"step_v3.hsaco", "step_v4.hsaco"}) {
    SCOPED_TRACE(file);
    const auto bytes = kept(file);
    const AmdgpuCode code(bytes);
    ASSERT_TRUE(code.valid());
    EXPECT_EQ(names_of(code), (std::vector<std::string>{"step", "other"}));
    EXPECT_FALSE(code.kernel("ste"));
    const auto step = code.kernel("step");
    ASSERT_TRUE(step);
    ASSERT_EQ(step->arguments.size(), 4u);
    const std::uint32_t expected[4][2] = {{0, 8}, {8, 4}, {16, 32}, {48, 1}};
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(step->arguments[i].offset, expected[i][0]);
      EXPECT_EQ(step->arguments[i].size, expected[i][1]);
      EXPECT_FALSE(step->arguments[i].hidden());
    }
    EXPECT_EQ(step->arguments[0].kind, "global_buffer");
    EXPECT_EQ(step->arguments[2].kind, "by_value");
    const auto other = code.kernel("other");
    ASSERT_TRUE(other);
    ASSERT_GT(other->arguments.size(), 4u);
    EXPECT_FALSE(other->arguments[0].hidden());
    bool hostcall = false;
    for (std::size_t i = 1; i < other->arguments.size(); ++i) {
      EXPECT_TRUE(other->arguments[i].hidden()) << other->arguments[i].kind;
      EXPECT_EQ(other->arguments[i].offset, 8 * i);
      hostcall = hostcall || other->arguments[i].kind == "hidden_hostcall_buffer";
    }
    EXPECT_TRUE(hostcall);
  }
}

TEST(AmdgpuCode, only_wanted_kernels_are_read) {
  const auto bytes = kept("step_v4.hsaco");
  std::vector<std::string> asked, read;
  EXPECT_TRUE(AmdgpuCode(bytes).each_kernel(
      [&](std::string_view name) {
        asked.emplace_back(name);
        return name == "step";
      },
      [&](AmdgpuKernel&& k) { read.push_back(k.name); }));
  EXPECT_EQ(asked, (std::vector<std::string>{"step", "other"}));
  EXPECT_EQ(read, (std::vector<std::string>{"step"}));
}

TEST(AmdgpuCode, tells_variables_apart) {
  const auto bytes = kept("step_v4.hsaco");
  std::map<std::string, AmdgpuVariable> variables;
  for (const AmdgpuVariable& v : AmdgpuCode(bytes).variables()) variables[v.name] = v;
  ASSERT_TRUE(variables.count("_ZL12hidden_state"));
  EXPECT_TRUE(variables["_ZL12hidden_state"].local && variables["_ZL12hidden_state"].writable);
  const std::string block_dim = "_ZN17__HIP_CoordinatesI14__HIP_BlockDimE1xE";
  ASSERT_TRUE(variables.count(block_dim));
  EXPECT_FALSE(variables[block_dim].local || variables[block_dim].writable);
  EXPECT_FALSE(variables.count("step.kd"));
}

// Every answer about damaged bytes is an answer: no read outside of them (a sanitizer would say so).
TEST(AmdgpuCode, survives_bytes_that_were_cut_or_changed) {
  const auto whole = kept("step_v4.hsaco");
  auto look = [](std::span<const std::byte> bytes) {
    const AmdgpuCode code(bytes);
    code.each_kernel({}, [](AmdgpuKernel&&) {});
    (void)code.kernel("step");
    (void)code.variables();
  };
  for (std::size_t n = 0; n < whole.size(); n += n < 1024 ? 1 : 37) {
    const std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<long>(n));
    look(cut);
  }
  std::uint32_t random = 1;
  for (int round = 0; round < 2000; ++round) {
    auto changed = whole;
    for (int k = 0; k < 4; ++k) {
      random = random * 1664525u + 1013904223u;
      changed[random % changed.size()] = static_cast<std::byte>(random >> 24);
    }
    look(changed);
  }
}

TEST(AmdgpuCode, other_files_are_no_code) {
  EXPECT_FALSE(AmdgpuCode({}).valid());
  std::vector<std::byte> elf(64);
  std::memcpy(elf.data(),
              "\x7f"
              "ELF\2\1\1",
              7);
  EXPECT_FALSE(AmdgpuCode(elf).valid());
  EXPECT_FALSE(AmdgpuCode(elf).kernel("step"));
}

TEST(MessagePack, containers_that_claim_more_than_there_is_fail) {
  const unsigned char claims[] = {0xdf, 0xff, 0xff, 0xff, 0xff, 0xa1, 'a', 0x01};
  amdgpu::Reader r(std::as_bytes(std::span(claims)));
  EXPECT_FALSE(r.skip());
  EXPECT_FALSE(r.ok());
  std::vector<unsigned char> deep(10000, 0x91);  // a list in a list in a list ...
  amdgpu::Reader d(std::as_bytes(std::span(deep)));
  EXPECT_FALSE(d.skip());
}

TEST(MessagePack, numbers_of_every_width) {
  const unsigned char bytes[] = {0x7f, 0xcc, 0xff, 0xcd, 0x01, 0x00, 0xce, 0,    1,    0,    0,    0xcf, 0,
                                 0,    0,    1,    0,    0,    0,    0,    0xc3, 0xd0, 0x05, 0xd0, 0x80};
  amdgpu::Reader r(std::as_bytes(std::span(bytes)));
  for (const std::uint64_t expected : {127ull, 255ull, 256ull, 65536ull, 1ull << 32, 1ull, 5ull}) {
    std::uint64_t n = 0;
    ASSERT_TRUE(r.number(n));
    EXPECT_EQ(n, expected);
  }
  std::uint64_t n = 0;
  EXPECT_FALSE(r.number(n)) << "a negative number is no size";
}

TEST(Packets, barriers_wait_for_all_before_and_reach_the_host) {
  const Packet p = barrier_packet({42}, HSA_FENCE_SCOPE_SYSTEM);
  EXPECT_EQ(type_of(p), static_cast<std::uint32_t>(HSA_PACKET_TYPE_BARRIER_AND));
  EXPECT_FALSE(is_dispatch(p));
  EXPECT_EQ(completion_of(p).handle, 42u);
  EXPECT_EQ(p.barrier.header >> HSA_PACKET_HEADER_BARRIER & 1, 1);
  EXPECT_EQ(p.barrier.header >> HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE & 3, HSA_FENCE_SCOPE_SYSTEM);
  for (const hsa_signal_t s : p.barrier.dep_signal) EXPECT_EQ(s.handle, 0u);
}

TEST(Packets, only_the_release_of_a_dispatch_is_widened) {
  Packet p;
  std::memset(&p, 0, sizeof p);
  p.dispatch.header = HSA_PACKET_TYPE_KERNEL_DISPATCH | 1 << HSA_PACKET_HEADER_BARRIER |
                      HSA_FENCE_SCOPE_AGENT << HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE |
                      HSA_FENCE_SCOPE_AGENT << HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE;
  const std::uint16_t before = p.dispatch.header;
  release_to_system(p);
  EXPECT_EQ(p.dispatch.header ^ before, (HSA_FENCE_SCOPE_AGENT ^ HSA_FENCE_SCOPE_SYSTEM)
                                            << HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE);
  EXPECT_TRUE(is_dispatch(p));
}

TEST(Packets, partial_blocks_count_as_blocks) {
  EXPECT_EQ(blocks_of(256, 64), 4u);
  EXPECT_EQ(blocks_of(257, 64), 5u);
  EXPECT_EQ(blocks_of(1, 1024), 1u);
  EXPECT_EQ(blocks_of(0xffffffffu, 2), 0x80000000u);
  EXPECT_EQ(blocks_of(7, 0), 0u);
}

TEST(Agents, uuids_are_padded_to_32_digits) {
  std::uint8_t bytes[16];
  ASSERT_TRUE(parse_uuid("GPU-18F68e602b8a790f", bytes));
  const std::uint8_t expected[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0x18, 0xf6, 0x8e, 0x60, 0x2b, 0x8a, 0x79, 0x0f};
  EXPECT_EQ(std::memcmp(bytes, expected, 16), 0);
  EXPECT_FALSE(parse_uuid("GPU-XX", bytes));
  EXPECT_FALSE(parse_uuid("CPU-18f68e602b8a790f", bytes));
  EXPECT_FALSE(parse_uuid("GPU-18f68e602b8a790g", bytes));
}

TEST(Tracker, locked_memory_goes_by_the_address_that_the_program_knows) {
  Tracker t;
  Range r;
  r.begin = 0x10000, r.size = 0x1000, r.host = 0x70000, r.flags = 2, r.agent = 7;
  t.add(r);
  ASSERT_EQ(t.ranges().size(), 1u);
  EXPECT_EQ(t.ranges()[0].flags, 2u);
  EXPECT_EQ(t.ranges()[0].agent, 7u);
  t.remove_host(0x10000);
  EXPECT_EQ(t.ranges().size(), 1u);
  t.remove_host(0x70000);
  EXPECT_TRUE(t.ranges().empty());
}

}  // namespace
}  // namespace klab::shim
