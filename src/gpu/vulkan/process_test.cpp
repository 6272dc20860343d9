// SPDX-License-Identifier: Apache-2.0
// What needs a process of its own: a device that hangs, other drivers, no driver. The child is this program again.
#include <unistd.h>

#include <chrono>

#include "base/files.h"
#include "gpu/vulkan/test_support.h"

namespace klab::gpu {
namespace {

using Environment = std::map<std::string, std::optional<std::string>>;

Finished run_child(const std::string& test, Environment environment, std::chrono::seconds limit = std::chrono::seconds(60)) {
  environment["KLAB_GPU_CHILD"] = "1";
  auto ran = run_program({.argv = {fs::read_symlink("/proc/self/exe").string(), "--gtest_filter=VulkanChild." + test},
                          .environment = environment},
                         {}, limit);
  EXPECT_TRUE(ran) << ran.error().what;
  return ran.value_or(Finished{});
}

class VulkanChild : public testing::Test {
 protected:
  void SetUp() override {
    if (getenv("KLAB_GPU_CHILD") == nullptr) GTEST_SKIP() << "runs as a child of VulkanProcess";
  }
};

TEST_F(VulkanChild, hangs) {
  {
    auto device = open_device();
    const MemoryRequest request{.size = 4096};
    const MemoryId m = device->place(std::span(&request, 1), false)->front().id;
    const std::vector<std::uint32_t> ones(1024, 1);
    ASSERT_TRUE(device->upload(m, 0, bytes_of(ones)));
    const CodeId code = device->load(compile_glsl(R"(#version 450
layout(local_size_x = 1) in; layout(binding = 0) coherent volatile buffer O { uint o[]; };
void main() { while (o[0] != 0) o[1] += 1; })")).value();
    LaunchSpec spec;
    spec.code = code;
    spec.layout = {{.set = 0, .binding = 0, .vulkan_type = 7}};
    spec.bindings = {{.set = 0, .binding = 0, .memory = m, .range = 4096}};
    // Mesa's CPU driver leaves any loop after 65,535 rounds, so many workgroups are needed too.
    for (int k = 0; k < 2; ++k) spec.grid[k] = std::min(65'535u, device->abilities().max_grid[k]);
    const LaunchId launch = device->prepare(spec).value();
    const auto start = std::chrono::steady_clock::now();
    const Step step = Step::launch_of(launch, true);
    auto result = device->run(std::span(&step, 1), 300'000'000);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::timeout) << result.error().what;
    EXPECT_LT(seconds, 3);
    EXPECT_GE(seconds, 0.25);
    EXPECT_EQ(device->run({}, 1).error().code, ErrorCode::device_fault);
    EXPECT_FALSE(device->load({}).has_value());
    device->discard(launch);
    device->release(m);
  }  // closing a hung device must not wait for it
  if (!testing::Test::HasFailure()) _exit(77);
}

TEST_F(VulkanChild, reads_registers) {
  auto device = open_device();
  LaunchSpec spec;  // this device has no memory at all: compile only
  spec.code = device->load(device->builtin_kernel("flush")).value();
  spec.layout = {{.set = 0, .binding = 0, .vulkan_type = 7}};
  spec.bindings = {{.set = 0, .binding = 0, .range = 4096}};
  spec.push_ranges = {{0, 8}};
  spec.push_constants.resize(8);
  auto launch = device->prepare(spec);
  ASSERT_TRUE(launch) << launch.error().what;
  const Step step = Step::launch_of(*launch, true);
  EXPECT_EQ(device->run(std::span(&step, 1), 1'000'000'000).error().code, ErrorCode::internal);
  auto r = device->resources(*launch);
  ASSERT_TRUE(r) << r.error().what;
  EXPECT_GT(r->vector_registers.value_or(0), 0u);
  EXPECT_GT(r->scalar_registers.value_or(0), 0u);
  EXPECT_EQ(r->spilled_registers, 0u);
  EXPECT_GT(r->code_bytes.value_or(0), 0u);
  EXPECT_EQ(r->shared_bytes, 0u);
  EXPECT_EQ(r->occupancy, 1.0);
  EXPECT_NE(r->isa.find("s_endpgm"), std::string::npos) << r->isa.substr(0, 200);
  // 8 KiB of shared memory for 64 threads: 16 such groups fill the 128 KiB of four SIMDs, a quarter of their waves.
  spec.code = device->load(compile_glsl(R"(#version 450
layout(local_size_x = 64) in; layout(binding = 0) buffer O { uint o[]; }; shared uint s[2048];
void main() { uint i = gl_LocalInvocationIndex; for (uint k = i; k < 2048; k += 64) s[k] = o[k];
  barrier(); o[i] = s[(i * 77) % 2048]; })")).value();
  auto limited = device->resources(device->prepare(spec).value());
  ASSERT_TRUE(limited) << limited.error().what;
  EXPECT_EQ(limited->shared_bytes, 8192u);
  EXPECT_EQ(limited->occupancy, 0.25);
  std::printf("%s\n", [&] { Json j = *r; j.erase("isa"); return j.dump(); }().c_str());
  std::fflush(stdout);
  if (!testing::Test::HasFailure()) _exit(77);
}

TEST_F(VulkanChild, finds_no_device) {
  auto opened = find_api("vulkan").value()->open("");
  ASSERT_FALSE(opened);
  EXPECT_TRUE(opened.error().code == ErrorCode::no_device || opened.error().code == ErrorCode::environment)
      << opened.error().what;
  EXPECT_NE(opened.error().hint.find("mesa-vulkan-drivers"), std::string::npos) << opened.error().hint;
  if (!testing::Test::HasFailure()) _exit(77);
}

TEST_F(VulkanChild, has_no_capture_layer) {
  open_device();
  EXPECT_EQ(getenv("VK_INSTANCE_LAYERS"), nullptr);
  if (!testing::Test::HasFailure()) _exit(77);
}

TEST(VulkanProcess, a_dispatch_that_never_ends_is_a_timeout_within_the_limit) {
  const auto start = std::chrono::steady_clock::now();
  const Finished child = run_child("hangs", {});
  EXPECT_EQ(child.status.code, 77) << to_string(child.status) << "\n" << child.out << child.err;
  EXPECT_FALSE(child.timed_out);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(VulkanProcess, reads_registers_and_assembly_of_an_offline_amd_gpu) {
  const char* icd = "/usr/share/vulkan/icd.d/radeon_icd.x86_64.json";
  if (access(icd, R_OK) != 0) GTEST_SKIP() << "RADV is not installed (mesa-vulkan-drivers)";
  const Finished child = run_child("reads_registers", {{"VK_ICD_FILENAMES", icd}, {"RADV_FORCE_FAMILY", "gfx1100"}});
  EXPECT_EQ(child.status.code, 77) << to_string(child.status) << "\n" << child.out << child.err;
  EXPECT_NE(child.out.find("VGPRs"), std::string::npos);
}

TEST(VulkanProcess, without_a_driver_the_error_names_the_package) {
  const Finished child = run_child("finds_no_device", {{"VK_ICD_FILENAMES", "/nonexistent.json"}, {"VK_DRIVER_FILES", std::nullopt}});
  EXPECT_EQ(child.status.code, 77) << to_string(child.status) << "\n" << child.out << child.err;
}

TEST(VulkanProcess, the_capture_layer_of_an_inherited_environment_is_not_loaded) {
  const Finished child = run_child("has_no_capture_layer", {{"VK_INSTANCE_LAYERS", "VK_LAYER_KLAB_capture"}});
  EXPECT_EQ(child.status.code, 77) << to_string(child.status) << "\n" << child.out << child.err;
}

}  // namespace
}  // namespace klab::gpu
