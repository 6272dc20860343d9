// SPDX-License-Identifier: Apache-2.0
// The parts of the shim that need no driver.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/find_cupti.h"
#include "shim/cuda/cubin.h"
#include "shim/cuda/device.h"
#include "shim/cuda/driver.h"
#include "shim/cuda/kernels.h"
#include "shim/cuda/launch.h"
#include "shim/launch/tracker.h"

namespace klab::shim {
namespace {

std::vector<std::byte> read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
  std::vector<std::byte> all(bytes.size());
  if (!bytes.empty()) std::memcpy(all.data(), bytes.data(), bytes.size());
  return all;
}

std::string kept(const std::string& name) { return KLAB_SOURCE_DIR "/src/shim/cuda/test_data/" + name; }

std::vector<std::string> cubin_files() {
  std::vector<std::string> files{kept("step_sm75.cubin"), kept("step_sm90.cubin")};
#ifdef KLAB_CUBINS
  for (const char* arch : {"80", "90", "100"})
    files.push_back(KLAB_CUBINS "/step_sm" + std::string(arch) + ".cubin");
#endif
  return files;
}

TEST(Cubin, tells_kernels_parameters_and_variables_of_every_architecture) {
  for (const std::string& file : cubin_files()) {
    SCOPED_TRACE(file);
    const auto bytes = read(file);
    const Cubin c(bytes);
    ASSERT_TRUE(c.valid());
    EXPECT_TRUE(c.has_kernel("step"));
    EXPECT_TRUE(c.has_kernel("_Z4tmplIfEvPT_d"));
    EXPECT_FALSE(c.has_kernel("ste"));
    EXPECT_EQ(c.kernels().size(), 2u);
    const auto layout = c.parameters("step");
    ASSERT_TRUE(layout);
    ASSERT_EQ(layout->size(), 4u);
    const std::uint32_t expected[4][2] = {{0, 8}, {8, 4}, {16, 32}, {48, 1}};
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ((*layout)[i].offset, expected[i][0]);
      EXPECT_EQ((*layout)[i].size, expected[i][1]);
    }
    EXPECT_FALSE(c.parameters("other"));
    std::map<std::string, Variable> variables;
    for (const Variable& v : c.variables()) variables[v.name] = v;
    EXPECT_EQ(variables.size(), 6u);
    EXPECT_TRUE(variables["table"].constant);
    EXPECT_EQ(variables["table"].size, 64u);
    EXPECT_TRUE(variables["cptr"].constant);
    EXPECT_FALSE(variables["garr"].constant);
    EXPECT_EQ(variables["garr"].size, 400u);
    EXPECT_EQ(variables["gptr"].size, 8u);
    EXPECT_EQ(variables["ginit"].size, 4u);
    EXPECT_TRUE(variables["mvar"].managed);
  }
}

// Every answer about damaged bytes is an answer: no read outside of them (run with a sanitizer it would say
// so).
TEST(Cubin, survives_bytes_that_were_cut_or_changed) {
  const auto whole = read(kept("step_sm90.cubin"));
  ASSERT_FALSE(whole.empty());
  auto ask = [](std::span<const std::byte> bytes) {
    const Cubin c(bytes);
    (void)c.variables();
    (void)c.has_kernel("step");
    for (const std::string& name : c.kernels()) (void)c.parameters(name);
  };
  for (std::size_t n = 0; n < whole.size(); n += 13)
    ask(std::vector<std::byte>(whole.begin(), whole.begin() + n));
  std::uint32_t seed = 1;
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::byte> bytes = whole;
    for (int k = 0; k < 4; ++k) {
      seed = seed * 1664525u + 1013904223u;
      // Half of the changes in the headers, where they do most.
      const std::size_t at = k % 2 == 0 ? seed / 7 % bytes.size() : bytes.size() - 1 - seed / 7 % 2048;
      bytes[at] = static_cast<std::byte>(seed >> 24);
    }
    ask(bytes);
  }
}

TEST(Arguments, are_packed_by_the_layout_with_zeros_between) {
  std::uint64_t a = 0x1122334455667788;
  std::uint8_t b = 0x99;
  std::uint32_t c = 0xaabbccdd;
  void* parameters[] = {&a, &b, &c};
  Launch l;
  l.parameters = parameters;
  std::string why;
  const auto bytes = pack_arguments(l, std::vector<Parameter>{{0, 8}, {8, 1}, {12, 4}}, why);
  EXPECT_EQ(why, "");
  ASSERT_EQ(bytes.size(), 16u);
  EXPECT_EQ(std::memcmp(bytes.data(), &a, 8), 0);
  EXPECT_EQ(bytes[8], std::byte{0x99});
  EXPECT_EQ(bytes[9], std::byte{0});
  EXPECT_EQ(std::memcmp(bytes.data() + 12, &c, 4), 0);
}

TEST(Arguments, come_from_the_packed_buffer_whatever_its_options_order) {
  std::uint32_t values[3] = {1, 2, 3};
  std::size_t size = sizeof values;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_BUFFER_POINTER, values,
                   CU_LAUNCH_PARAM_END};
  Launch l;
  l.extra = extra;
  std::string why;
  const auto bytes = pack_arguments(l, std::nullopt, why);
  EXPECT_EQ(why, "");
  ASSERT_EQ(bytes.size(), sizeof values);
  EXPECT_EQ(std::memcmp(bytes.data(), values, sizeof values), 0);
}

TEST(Arguments, are_refused_when_they_cannot_be_known) {
  std::uint32_t value = 1;
  void* parameters[] = {&value};
  Launch l;
  l.parameters = parameters;
  std::string why;
  EXPECT_TRUE(pack_arguments(l, std::nullopt, why).empty());
  EXPECT_NE(why.find("layout"), std::string::npos);
  why.clear();
  pack_arguments(l, std::vector<Parameter>{{40000, 8}}, why);
  EXPECT_NE(why, "");
  why.clear();
  Launch none;
  pack_arguments(none, std::vector<Parameter>{{0, 8}}, why);
  EXPECT_NE(why, "");
  why.clear();
  EXPECT_TRUE(pack_arguments(none, std::vector<Parameter>{}, why).empty());
  EXPECT_EQ(why, "");
}

TEST(Attributes, have_the_names_of_the_header_and_leave_out_what_means_nothing_alone) {
  CUlaunchAttribute all[5] = {};
  all[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  all[0].value.clusterDim = {2, 3, 4};
  all[1].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  all[1].value.cooperative = 1;
  all[2].id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
  all[2].value.priority = -5;
  all[3].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT;
  all[4].id = static_cast<CUlaunchAttributeID>(61);
  Launch l;
  l.attributes = all;
  l.attribute_count = 5;
  const Attributes a = read_attributes(l);
  EXPECT_EQ(a.cluster[1], 3u);
  ASSERT_EQ(a.set.size(), 2u);
  EXPECT_EQ(a.set[0].name, "cooperative");
  EXPECT_EQ(a.set[1].name, "priority");
  EXPECT_EQ(a.set[1].value, -5);
  ASSERT_EQ(a.left_out.size(), 2u);
  EXPECT_EQ(a.left_out[1].first, "launch attribute 61");
}

TEST(Tracker, answers_with_what_is_there_now) {
  Tracker t;
  t.add(0x1000, 0x100, KLAB_MEMORY_DEVICE);
  t.add(0x3000, 0x100, KLAB_MEMORY_MANAGED);
  t.add(0x2000, 0x100, KLAB_MEMORY_PINNED_HOST);
  t.remove(0x3000);
  t.remove(0x9999);
  t.add(~0ull - 5, 100, KLAB_MEMORY_DEVICE);  // wraps
  t.add(0x5000, 0, KLAB_MEMORY_DEVICE);
  const auto ranges = t.ranges();
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(find_range(ranges, 0x10ff)->begin, 0x1000u);
  EXPECT_EQ(find_range(ranges, 0x1100), nullptr);
  EXPECT_EQ(find_range(ranges, 0xfff), nullptr);
  EXPECT_EQ(find_range(ranges, 0x2050)->memory, KLAB_MEMORY_PINNED_HOST);
}

TEST(Tracker, forgets_what_goes_with_its_context) {
  Tracker t;
  int a = 0, b = 0;
  t.add(0x1000, 0x100, KLAB_MEMORY_DEVICE, nullptr, &a);
  t.add(0x2000, 0x100, KLAB_MEMORY_DEVICE, nullptr, &b);
  t.add(0x3000, 0x100, KLAB_MEMORY_DEVICE);
  t.context_destroyed(&a);
  t.context_destroyed(nullptr);
  ASSERT_EQ(t.ranges().size(), 2u);
  EXPECT_EQ(t.ranges()[0].begin, 0x2000u);
}

// Memory can come back by a call that is not seen (a context that was destroyed); it may then be given out
// again.
TEST(Tracker, believes_the_newer_of_two_that_overlap) {
  Tracker t;
  t.add(0x1000, 0x1000, KLAB_MEMORY_DEVICE);
  t.add(0x1800, 0x1000, KLAB_MEMORY_MANAGED);
  const auto ranges = t.ranges();
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(ranges[0].begin, 0x1800u);
}

TEST(Tracker, merges_neighbours_that_are_mapped_and_accessible) {
  Tracker t;
  t.created(1, false);
  t.created(2, false);
  t.imported(3);
  t.map(0x100000, 0x10000, 1);
  t.map(0x110000, 0x10000, 2);
  t.map(0x120000, 0x10000, 3);
  EXPECT_TRUE(t.ranges().empty());
  t.set_access(0x100000, 0x30000, true);
  auto ranges = t.ranges();
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].size, 0x20000u);
  EXPECT_EQ(ranges[0].refusal, nullptr);
  EXPECT_NE(ranges[1].refusal, nullptr);
  t.unmap(0x100000, 0x10000);
  ranges = t.ranges();
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].begin, 0x110000u);
}

TEST(Device, version_is_found_in_both_forms_of_the_kernel_module) {
  EXPECT_EQ(
      version_in("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\n"),
      "550.54.15");
  EXPECT_EQ(
      version_in(
          "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\nGCC 12.2.0"),
      "580.95.05");
  EXPECT_EQ(version_in("nothing\n1.2.3"), "");
}

TEST(Names, are_demangled_and_others_kept) {
  EXPECT_EQ(demangle("_Z4tmplIfEvPT_d"), "void tmpl<float>(float*, double)");
  EXPECT_EQ(demangle("step"), "step");
  EXPECT_EQ(demangle("triton_poi_fused_0"), "triton_poi_fused_0");
}

TEST(Driver, has_every_symbol_that_the_shim_looks_for) {
  const std::string stub = KLAB_CUDA_INCLUDE "/../lib64/stubs/libcuda.so";
  if (::access(stub.c_str(), R_OK) != 0) GTEST_SKIP() << "no stub of libcuda in this toolkit";
  void* library = ::dlopen(stub.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << ::dlerror();
  EXPECT_GT(driver_symbols().size(), 30u);
  for (const char* symbol : driver_symbols()) EXPECT_NE(::dlsym(library, symbol), nullptr) << symbol;
}

TEST(FindCupti, looks_beside_the_interpreter_and_where_it_is_told) {
  namespace fs = std::filesystem;
  const fs::path root = fs::temp_directory_path() / ("klab-cupti-" + std::to_string(::getpid()));
  const fs::path packages = root / "venv/lib/python3.12/site-packages/nvidia";
  fs::create_directories(packages / "cuda_cupti/lib");
  fs::create_directories(packages / "cu13/lib");
  fs::create_directories(root / "own");
  auto touch = [](const fs::path& p) { std::ofstream(p) << "x"; };
  touch(packages / "cuda_cupti/lib/libcupti.so.12");
  touch(packages / "cu13/lib/libcupti.so.13");
  touch(root / "own/libcupti.so");
  ::setenv("KLAB_CUPTI", (root / "own/libcupti.so").c_str(), 1);
  const auto files = cupti_files({(root / "venv/bin/python3").string()});
  ::unsetenv("KLAB_CUPTI");
  ASSERT_GE(files.size(), 3u);
  EXPECT_EQ(files.front(), (root / "own/libcupti.so").string());
  EXPECT_NE(std::find(files.begin(), files.end(), (packages / "cuda_cupti/lib/libcupti.so.12").string()),
            files.end());
  EXPECT_NE(std::find(files.begin(), files.end(), (packages / "cu13/lib/libcupti.so.13").string()),
            files.end());
  fs::remove_all(root);
}

}  // namespace
}  // namespace klab::shim
