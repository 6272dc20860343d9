// SPDX-License-Identifier: Apache-2.0
// Small bundles for tests and the golden file: every kind of member is filled in.
#pragma once
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "bundle/writer.h"

namespace klab::bundle::testing {

// In memory where that is possible: tests write thousands of files with fsync, and the disk may be busy.
inline fs::path memory_folder() {
  return ::access("/dev/shm", W_OK) == 0 ? fs::path("/dev/shm") : fs::temp_directory_path();
}

/// A folder of its own, removed with everything in it.
struct TempFolder {
  fs::path path = memory_folder() / ("klab-bundle-" + new_id());
  TempFolder() { fs::create_directories(path); }
  ~TempFolder() {
    std::error_code ec;
    fs::remove_all(path, ec);
  }
};

/// Reproducible bytes that do not repeat.
inline std::vector<std::byte> noise(std::size_t size, std::uint64_t seed) {
  std::vector<std::byte> bytes(size);
  std::uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;
  for (auto& b : bytes) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    b = static_cast<std::byte>(x >> 32);
  }
  return bytes;
}

inline Manifest sample_manifest() {
  Manifest m;
  m.made_at = "2026-01-31T12:00:00Z";
  m.device = {"vulkan",  "llvmpipe (LLVM 15.0.6, 256 bits)", "llvmpipe", "Mesa 22.3.6 (LLVM 15.0.6)",
              "1.3.230", "6d657361323232e3362d64656269616e", "cpu",      0x10005,
              0};
  m.program = {{"./saxpy", "--n", "4096"}, "/tmp/work", "/tmp/work/saxpy", 4242};
  Dispatch d;
  d.name = "saxpy";
  d.entry_point = "main";
  d.grid = {16, 2, 1};
  d.base = {0, 1, 0};
  d.block = {64, 1, 1};
  d.call = "vkCmdDispatch";
  d.nth = 3;
  d.sequence = 17;
  d.program_ns = 15492.5;
  d.required_subgroup_size = 8;
  d.layout = {{0, 0, 7, 1, false}, {0, 1, 7, 4, true}};
  d.bindings = {{0, 0, 0, BindingKind::storage_buffer, 0, 16, 64},
                {0, 1, 2, BindingKind::uniform_buffer, 1, 0, 100}};
  d.push_ranges = {{0, 8}};
  d.push_constants = Bytes(std::vector<std::byte>(8, std::byte{0xa5}));
  d.spec_constants = {{3, Bytes(std::vector<std::byte>(4, std::byte{1}))}};
  Region r;
  r.name = "x";
  r.address = 0x7f0000001000;
  r.size = 5000;
  r.allocation = 9;
  r.allocation_offset = 4096;
  r.opaque_address = 0xfedcba9876543210;
  r.memory_flags = 7;
  r.usage = 0x20;
  d.regions.push_back(r);
  r = Region{};
  r.id = 1;
  r.size = 100;
  r.kind = MemoryKind::pinned_host;
  r.reached_by = ReachedBy::pointer;
  d.regions.push_back(r);
  d.proof = {ProofState::nondeterministic, "4 bytes vary", 0, {{0, 12, 4}}, 4, 3, "2026-01-31T12:00:05Z"};
  m.dispatches.push_back(d);
  m.left_out = {{"queue 1", "did not drain within 2 s"}};
  return m;
}

/// A bundle of a few KB with two lists, a shared chunk, zeros and a code object.
inline Result<Writer::Sealed> write_sample(const fs::path& path, Writer::Options options = {},
                                           std::uint64_t seed = 1) {
  KLAB_TRY(auto w, Writer::create(path, options));
  Manifest m = sample_manifest();
  auto& regions = m.dispatches[0].regions;
  KLAB_TRY(regions[0].pre, w.add_list(5000));
  KLAB_TRY(regions[0].post, w.add_list(5000));
  KLAB_TRY(regions[1].pre, w.add_list(100));
  KLAB_TRY(regions[1].post, w.add_list(100));
  KLAB_TRY_VOID(w.put(regions[0].pre, 0, noise(5000, seed)));
  KLAB_TRY_VOID(w.put(regions[0].post, 0, noise(5000, seed + 1)));
  KLAB_TRY_VOID(w.put(regions[1].post, 0, noise(100, seed + 2)));
  KLAB_TRY(m.dispatches[0].code, w.add_code("spirv", "spv", noise(64, seed + 3)));
  w.code()[0].name = "saxpy.comp";
  return w.seal(std::move(m));
}

}  // namespace klab::bundle::testing
