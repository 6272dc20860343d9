// SPDX-License-Identifier: Apache-2.0
// The Vulkan backend through its interface, on lavapipe: launches, limits, timing.
#include <numeric>

#include "gpu/vulkan/test_support.h"

namespace klab::gpu {
namespace {

const std::string kSaxpy = R"(#version 450
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) buffer Y { float y[]; };
layout(push_constant) uniform P { float a; uint n; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < n) y[i] = a * x[i] + y[i]; })";

struct SaxpyPush {
  float a;
  std::uint32_t n;
};

class VulkanDeviceTest : public VulkanTest {
 protected:
  LaunchSpec saxpy(std::uint32_t n, MemoryId x, MemoryId y) {
    const SaxpyPush push{2.0f, n};
    LaunchSpec spec = spec_of(load(kSaxpy), {{x, n * 4ull}, {y, n * 4ull}}, std::as_bytes(std::span(&push, 1)));
    spec.grid = {(n + 63) / 64, 1, 1};
    return spec;
  }
};

TEST_F(VulkanDeviceTest, runs_saxpy_and_times_it) {
  constexpr std::uint32_t n = 100'000;
  std::vector<float> x(n), y(n);
  std::iota(x.begin(), x.end(), 0.0f);
  std::iota(y.begin(), y.end(), 5.0f);
  const MemoryId mx = memory_with(x), my = memory_with(y);
  const LaunchId launch = prepare(saxpy(n, mx, my));
  const BatchResult result = run({Step::launch_of(launch, true)});
  ASSERT_EQ(result.launch_ns.size(), 1u);
  EXPECT_GT(result.launch_ns[0], 0);
  EXPECT_GE(result.wall_ns, result.launch_ns[0]);
  const auto out = read<float>(my, n);
  for (std::uint32_t i = 0; i < n; ++i) ASSERT_EQ(out[i], 2.0f * x[i] + y[i]) << i;
}

TEST_F(VulkanDeviceTest, steps_see_the_effects_of_steps_before) {
  constexpr std::uint32_t n = 4096;
  const MemoryId x = memory_with(std::vector<float>(n, 1.0f)), y = memory(n * 4), pristine = memory(n * 4);
  const LaunchId launch = prepare(saxpy(n, x, y));
  const auto result = run({Step::fill_of(pristine, 0, n * 4, 0x3f800000), Step::copy_of(y, 0, pristine, 0, n * 4),
                           Step::launch_of(launch, true), Step::launch_of(launch, false), Step::copy_of(pristine, 0, y, 0, 8)});
  EXPECT_EQ(result.launch_ns.size(), 1u);
  EXPECT_EQ(read<float>(y, n), std::vector<float>(n, 5.0f));
  EXPECT_EQ(read<float>(pristine, 3), (std::vector<float>{5.0f, 5.0f, 1.0f}));
}

TEST_F(VulkanDeviceTest, runs_ten_thousand_timed_launches_in_one_batch) {
  constexpr std::uint32_t n = 64;
  const MemoryId x = memory_with(std::vector<float>(n, 1.0f)), y = memory_with(std::vector<float>(n, 0.0f));
  const LaunchId launch = prepare(saxpy(n, x, y));
  const auto result = run(std::vector<Step>(10'000, Step::launch_of(launch, true)));
  ASSERT_EQ(result.launch_ns.size(), 10'000u);
  EXPECT_GT(*std::min_element(result.launch_ns.begin(), result.launch_ns.end()), 0);
  EXPECT_EQ(read<float>(y, n), std::vector<float>(n, 20'000.0f));
  // The pool of queries and command buffers is used again.
  EXPECT_EQ(run({Step::launch_of(launch, true)}).launch_ns.size(), 1u);
}

TEST_F(VulkanDeviceTest, tells_what_the_device_can_do) {
  const Abilities& a = device->abilities();
  EXPECT_GT(a.max_block_threads, 0u);
  EXPECT_GT(a.max_shared_bytes, 0u);
  EXPECT_GT(a.max_allocation, 0u);
  EXPECT_GT(a.subgroup_size, 0u);
  EXPECT_EQ(device->identity().uuid.size(), 32u);
  EXPECT_FALSE(device->identity().driver_version.empty());
  auto listed = find_api("vulkan").value()->list();
  ASSERT_TRUE(listed) << listed.error().what;
  const auto same = std::find_if(listed->begin(), listed->end(),
                                 [&](const Listed& l) { return l.identity.uuid == device->identity().uuid; });
  ASSERT_NE(same, listed->end());
  EXPECT_EQ(Json(same->abilities), Json(a));
}

TEST_F(VulkanDeviceTest, a_selector_that_matches_nothing_names_what_is_there) {
  auto opened = find_api("vulkan").value()->open("no such gpu");
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::no_device);
  EXPECT_NE(opened.error().what.find(device->identity().name), std::string::npos) << opened.error().what;
  EXPECT_TRUE(find_api("vulkan").value()->open(device->identity().uuid));
}

TEST_F(VulkanDeviceTest, passes_specialization_constants_push_constants_and_base) {
  const CodeId code = load(R"(#version 450
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint add = 7;
layout(binding = 0) buffer O { uint o[]; };
layout(push_constant) uniform P { uint pad; uint value; };
void main() { o[gl_GlobalInvocationID.x] = gl_WorkGroupID.x * 1000 + add + value; })");
  const MemoryId out = memory_with(std::vector<std::uint32_t>(64, 0));
  const std::vector<std::uint32_t> push{0, 30};
  LaunchSpec spec = spec_of(code, {{out, 256}}, bytes_of(push));
  auto word = [](std::uint32_t v) {
    Bytes b(4);
    std::memcpy(b.data(), &v, 4);
    return b;
  };
  spec.spec_constants = {{0, word(4)}, {1, word(200)}};
  spec.grid = {2, 1, 1};
  spec.base = {3, 0, 0};
  run({Step::launch_of(prepare(spec), false)});
  const auto o = read<std::uint32_t>(out, 64);
  EXPECT_EQ(o[11], 0u);
  EXPECT_EQ(o[12], 3230u);
  EXPECT_EQ(o[19], 4230u);
  EXPECT_EQ(o[20], 0u);

  spec.spec_constants = {{0, Bytes(8)}};
  EXPECT_EQ(device->prepare(spec).error().code, ErrorCode::launch_failed);
}

TEST_F(VulkanDeviceTest, runs_16_bit_and_8_bit_storage) {
  const CodeId code = load(R"(#version 450
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
layout(local_size_x = 32) in;
layout(binding = 0) buffer A { float16_t a[]; };
layout(binding = 1) buffer B { int8_t b[]; };
void main() { uint i = gl_GlobalInvocationID.x; a[i] = a[i] + float16_t(1.0); b[i] = int8_t(b[i] * int8_t(2)); })");
  const MemoryId a = memory_with(std::vector<std::uint16_t>(32, 0x3c00)), b = memory_with(std::vector<std::int8_t>(32, -3));
  run({Step::launch_of(prepare(spec_of(code, {{a, 64}, {b, 32}})), false)});
  EXPECT_EQ(read<std::uint16_t>(a, 32), std::vector<std::uint16_t>(32, 0x4000));
  EXPECT_EQ(read<std::int8_t>(b, 32), std::vector<std::int8_t>(32, -6));
}

TEST_F(VulkanDeviceTest, binds_arrays_dynamic_and_uniform_buffers_and_push_descriptors) {
  const CodeId code = load(R"(#version 450
layout(local_size_x = 1) in;
layout(set = 0, binding = 0) buffer A { uint v; } a[3];
layout(set = 0, binding = 4) uniform U { uint u; };
layout(set = 2, binding = 1) buffer D { uint d[]; };
void main() { d[0] = a[0].v + a[2].v + u; })");
  const MemoryId values = memory_with(std::vector<std::uint32_t>(256, 5)), out = memory_with(std::vector<std::uint32_t>(256, 0));
  LaunchSpec spec;
  spec.code = code;
  spec.layout = {{.set = 0, .binding = 0, .vulkan_type = 7, .count = 3},
                 {.set = 0, .binding = 4, .vulkan_type = 8, .count = 1},
                 {.set = 2, .binding = 1, .vulkan_type = 7, .count = 1, .push_descriptor = true}};
  using Kind = bundle::BindingKind;
  spec.bindings = {{0, 0, 0, Kind::storage_buffer, values, 0, 4},
                   {0, 0, 1, Kind::storage_buffer, values, 0, 4},
                   {0, 0, 2, Kind::storage_buffer, values, 256, 4},
                   {0, 4, 0, Kind::uniform_buffer_dynamic, values, 512, 16},
                   {2, 1, 0, Kind::storage_buffer, out, 256, 64}};
  run({Step::launch_of(prepare(spec), false)});
  EXPECT_EQ(read<std::uint32_t>(out, 65), [] { std::vector<std::uint32_t> v(65, 0); v[64] = 15; return v; }());
}

TEST_F(VulkanDeviceTest, names_entry_points_when_one_is_missing) {
  const MemoryId m = memory(256);
  LaunchSpec spec = saxpy(64, m, m);
  spec.entry_point = "other";
  auto launch = device->prepare(spec);
  ASSERT_FALSE(launch);
  EXPECT_EQ(launch.error().code, ErrorCode::missing_symbol);
  EXPECT_NE(launch.error().what.find("main"), std::string::npos);
}

TEST_F(VulkanDeviceTest, bad_code_never_reaches_the_driver) {
  const auto good = compile_glsl(kSaxpy);
  auto code_of = [&](std::vector<std::byte> bytes) {
    auto code = device->load(bytes);
    return code ? std::string("loaded") : std::string(to_string(code.error().code));
  };
  EXPECT_EQ(code_of({}), "invalid_data");
  EXPECT_EQ(code_of(std::vector<std::byte>(7)), "invalid_data");
  EXPECT_EQ(code_of(std::vector<std::byte>(400)), "invalid_data");
  for (std::size_t cut = 4; cut < good.size(); cut += 52)
    EXPECT_EQ(code_of({good.begin(), good.begin() + static_cast<long>(cut / 4 * 4)}), "invalid_data") << cut;
  int refused = 0;
  for (std::size_t word = 5; word < good.size() / 4; ++word) {  // a wrong id or opcode in each place
    auto bad = good;
    bad[word * 4 + 1] ^= std::byte{0x40};
    auto code = device->load(bad);
    if (!code)
      refused += code.error().code == ErrorCode::invalid_data;
    else
      device->unload(*code);
  }
  EXPECT_GT(refused, static_cast<int>(good.size() / 4 / 2));
}

TEST_F(VulkanDeviceTest, limits_are_told_with_numbers) {
  const MemoryId m = memory(1024);
  const LaunchSpec good = saxpy(64, m, m);
  auto refusal = [&](const LaunchSpec& spec) {
    auto launch = device->prepare(spec);
    if (launch) return std::string("prepared");
    EXPECT_EQ(launch.error().code, ErrorCode::launch_failed);
    return launch.error().what;
  };
  const std::uint32_t max = device->abilities().max_grid[1];
  if (max < 0xffffffff) {
    LaunchSpec spec = good;
    spec.grid[1] = max + 1;
    EXPECT_NE(refusal(spec).find(std::to_string(max)), std::string::npos);
  }
  LaunchSpec spec = good;
  spec.bindings[0].range = 1 << 20;
  EXPECT_NE(refusal(spec).find("1048576"), std::string::npos);
  spec = good;
  spec.bindings.pop_back();
  EXPECT_NE(refusal(spec).find("set 0 binding 1"), std::string::npos);
  spec = good;
  spec.bindings.pop_back();
  spec.layout.pop_back();
  EXPECT_NE(refusal(spec).find("layout"), std::string::npos);
  spec = good;
  spec.push_ranges[0].size = 4;
  EXPECT_NE(refusal(spec).find("8 bytes of push"), std::string::npos);
  spec = good;
  spec.required_subgroup_size = 3;
  EXPECT_NE(refusal(spec).find("subgroup size 3"), std::string::npos);

  const std::string shared = R"(#version 450
layout(local_size_x = 1) in; layout(constant_id = 0) const uint n = 4;
layout(binding = 0) buffer O { uint o[]; }; shared uint s[n * 256];
void main() { s[gl_WorkGroupID.x] = 1; barrier(); o[0] = s[o[1]]; })";
  spec = spec_of(load(shared), {{m, 1024}});
  const LaunchId small = prepare(spec);
  EXPECT_EQ(device->resources(small)->shared_bytes, 4096u);
  Bytes many(4);
  const std::uint32_t n = 100'000;
  std::memcpy(many.data(), &n, 4);
  spec.spec_constants = {{0, many}};
  EXPECT_NE(refusal(spec).find("102400000"), std::string::npos);

  const std::string block = R"(#version 450
layout(local_size_x_id = 0) in; layout(binding = 0) buffer O { uint o[]; }; void main() { o[0] = 1; })";
  spec = spec_of(load(block), {{m, 1024}});
  spec.spec_constants = {{0, many}};
  EXPECT_NE(refusal(spec).find("100000"), std::string::npos);
}

TEST_F(VulkanDeviceTest, runs_with_a_required_subgroup_size) {
  if (!device->abilities().subgroup_size_control) GTEST_SKIP() << "no subgroup size control on this device";
  const MemoryId out = memory(4);
  LaunchSpec spec = spec_of(load(R"(#version 450
#extension GL_KHR_shader_subgroup_basic : require
layout(local_size_x = 64) in; layout(binding = 0) buffer O { uint o; };
void main() { if (gl_LocalInvocationIndex == 0) o = gl_SubgroupSize; })"),
                            {{out, 4}});
  spec.required_subgroup_size = device->abilities().max_subgroup_size;
  const LaunchId launch = prepare(spec);
  run({Step::launch_of(launch, false)});
  EXPECT_EQ(read<std::uint32_t>(out, 1)[0], spec.required_subgroup_size);
  EXPECT_EQ(device->resources(launch)->subgroup_size, spec.required_subgroup_size);
}

TEST(GpuRegistry, an_unknown_api_is_refused_with_the_names_of_those_here) {
  auto api = find_api("metal");
  ASSERT_FALSE(api);
  EXPECT_EQ(api.error().code, ErrorCode::unsupported);
  EXPECT_NE(api.error().what.find("vulkan"), std::string::npos);
}

TEST(GpuResources, figures_survive_json) {
  Resources r;
  r.vector_registers = 12;
  r.occupancy = 0.5;
  r.driver = {{"VGPRs", "12"}};
  r.isa = "s_endpgm";
  EXPECT_EQ(Json(Json(r).get<Resources>()), Json(r));
  EXPECT_FALSE(Json(Resources{}).get<Resources>().vector_registers.has_value());
}

}  // namespace
}  // namespace klab::gpu
