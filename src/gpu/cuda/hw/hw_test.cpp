// SPDX-License-Identifier: Apache-2.0
// The CUDA backend on a real GPU: every claim of gpu/cuda/ that cannot be tested without one. Skipped where
// there is none. KLAB_TEST_DEVICE picks a device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <sstream>

#include <fmt/format.h>

#include "gpu/cuda/hw/hw.h"

namespace klab::gpu::hw {
namespace {

using ::testing::HasSubstr;
using Kind = bundle::MemoryKind;

#define KLAB_NEED(declaration, expression)                                 \
  auto KLAB_CONCAT(need_, __LINE__) = (expression);                        \
  ASSERT_TRUE(KLAB_CONCAT(need_, __LINE__))                                \
      << #expression << ": " << KLAB_CONCAT(need_, __LINE__).error().what; \
  declaration = std::move(*KLAB_CONCAT(need_, __LINE__))
#define KLAB_NEED_OK(expression)                                                 \
  do {                                                                           \
    const auto need_status = (expression);                                       \
    ASSERT_TRUE(need_status) << #expression << ": " << need_status.error().what; \
  } while (false)

class CudaHardware : public ::testing::Test {
 protected:
  // One context for all tests that leave it whole.
  static Device* shared() {
    static const auto opened = [] {
      auto device = open_device();
      if (!device) skip_reason() = device.error().what;
      return device ? std::move(*device) : nullptr;
    }();
    return opened.get();
  }
  static std::string& skip_reason() {
    static std::string reason;
    return reason;
  }
  void SetUp() override {
    device = shared();
    if (device == nullptr) GTEST_SKIP() << "no CUDA device: " << skip_reason();
  }
  Device* device = nullptr;

  std::vector<std::byte> random_bytes(std::size_t size, unsigned seed = 1) {
    std::vector<std::byte> bytes(size + 8);
    std::mt19937_64 random(seed);
    for (std::size_t i = 0; i + 8 <= bytes.size(); i += 8) {
      const std::uint64_t v = random();
      std::memcpy(bytes.data() + i, &v, 8);
    }
    bytes.resize(size);
    return bytes;
  }
  Result<Placed> filled(const std::vector<std::byte>& bytes) {
    KLAB_TRY(const auto placed, allocate(*device, std::max<std::size_t>(4, bytes.size())));
    KLAB_TRY_VOID(device->upload(placed.id, 0, bytes));
    return placed;
  }
};

TEST_F(CudaHardware, device_says_what_it_is) {
  const auto& id = device->identity();
  const auto& a = device->abilities();
  fmt::print(
      "{} | driver {} {} | api {} | uuid {} | type {} | capability {} | L2 {} MiB | shared {} | grid {}\n",
      id.name, id.driver, id.driver_version, id.api_version, id.uuid, id.type, id.device_id,
      a.last_level_cache >> 20, a.max_shared_bytes, a.max_grid[0]);
  EXPECT_EQ(id.uuid.size(), 32u);
  EXPECT_FALSE(id.driver_version.empty()) << "neither /proc/driver/nvidia/version nor NVML gave one";
  EXPECT_TRUE(a.fixed_addresses);
  EXPECT_EQ(a.subgroup_size, 32u);
  EXPECT_GT(a.last_level_cache, 0u);
}

TEST_F(CudaHardware, upload_and_download_give_back_any_size) {
  for (const std::size_t size : {1u, 4095u, 1u << 20, (64u << 20) + 3, (200u << 20) + 1}) {
    const auto bytes = random_bytes(size, 3);
    KLAB_NEED(const auto placed, filled(bytes));
    std::vector<std::byte> back(size);
    KLAB_NEED_OK(device->download(placed.id, 0, back));
    EXPECT_TRUE(back == bytes) << size << " bytes";
    device->release(placed.id);
  }
}

TEST_F(CudaHardware, hash_equals_the_host_for_all_sizes_and_both_kernels) {
  const auto bytes = random_bytes(40u << 20, 11);
  KLAB_NEED(const auto data, filled(bytes));
  std::vector<kernels::HashChunk> chunks;
  std::vector<kernels::HashAddressChunk> by_address;
  std::uint32_t at = 0;
  for (const std::uint32_t size : {0u, 1u, 2u, 3u, 4u, 5u, 15u, 16u, 17u, 1000u, 1001u, 65535u, 1u << 20,
                                   1u << 20, 1u << 20, 1u << 20, (1u << 20) - 1, 32u << 20}) {
    chunks.push_back({at, size});
    by_address.push_back({data.address + at, size, 0});
    at += (size + 3) / 4 * 4;
    if (at + (32u << 20) > bytes.size()) at = 0;
  }
  by_address.push_back({data.address + 1, 12345, 0});  // an address that is no multiple of 4
  KLAB_NEED(const auto list, filled(bytes_of(chunks)));
  KLAB_NEED(const auto addresses, filled(bytes_of(by_address)));
  KLAB_NEED(const auto out, allocate(*device, 16 * by_address.size()));
  const kernels::HashPush push{static_cast<std::uint32_t>(chunks.size()), 0};
  KLAB_NEED(const auto plain, builtin(*device, "hash",
                                      {{.binding = 0, .memory = data.id, .range = bytes.size()},
                                       {.binding = 1, .memory = list.id, .range = chunks.size() * 8},
                                       {.binding = 2, .memory = out.id, .range = chunks.size() * 16}},
                                      std::as_bytes(std::span(&push, 1)), {push.count, 1, 1}));
  std::vector<kernels::Hash> got(chunks.size());
  KLAB_NEED_OK(run(*device, {Step::launch_of(plain, false)}));
  KLAB_NEED_OK(device->download(out.id, 0, std::as_writable_bytes(std::span(got))));
  for (std::size_t i = 0; i < chunks.size(); ++i)
    EXPECT_EQ(got[i], kernels::hash_on_host(std::span(bytes).subspan(chunks[i].offset, chunks[i].size)))
        << "hash of " << chunks[i].size << " bytes at " << chunks[i].offset;
  const kernels::HashPush all{static_cast<std::uint32_t>(by_address.size()), 0};
  KLAB_NEED(const auto indirect,
            builtin(*device, "hash_address",
                    {{.binding = 0, .memory = addresses.id, .range = by_address.size() * 16},
                     {.binding = 1, .memory = out.id, .range = by_address.size() * 16}},
                    std::as_bytes(std::span(&all, 1)), {all.count, 1, 1}));
  got.resize(by_address.size());
  KLAB_NEED_OK(run(*device, {Step::launch_of(indirect, false)}));
  KLAB_NEED_OK(device->download(out.id, 0, std::as_writable_bytes(std::span(got))));
  for (std::size_t i = 0; i < by_address.size(); ++i)
    EXPECT_EQ(got[i], kernels::hash_on_host(
                          std::span(bytes).subspan(by_address[i].address - data.address, by_address[i].size)))
        << "hash_address of " << by_address[i].size << " bytes at " << by_address[i].address - data.address;
}

TEST_F(CudaHardware, compare_poison_flush_and_patch_do_what_the_host_expects) {
  auto bytes = random_bytes(3'000'003, 5);
  KLAB_NEED(const auto a, filled(bytes));
  auto other = bytes;
  other[2'999'999] ^= std::byte{1};
  other[1'234'567] ^= std::byte{0x80};
  KLAB_NEED(const auto b, filled(other));
  KLAB_NEED(const auto result, filled(bytes_of(std::vector<kernels::CompareResult>(1))));
  const kernels::ComparePush compare{0, 0, 3'000'003, 0};
  KLAB_NEED(const auto comparing,
            builtin(*device, "compare",
                    {{.memory = a.id, .range = 3'000'004},
                     {.memory = b.id, .range = 3'000'004},
                     {.memory = result.id, .range = 8}},
                    std::as_bytes(std::span(&compare, 1)), {kernels::striding_grid(3'000'003), 1, 1}));
  KLAB_NEED_OK(run(*device, {Step::launch_of(comparing, false)}));
  kernels::CompareResult found;
  KLAB_NEED_OK(device->download(result.id, 0, std::as_writable_bytes(std::span(&found, 1))));
  EXPECT_EQ(found.differing_bytes, 2u);
  EXPECT_EQ(found.first_offset, 1'234'567u);

  const auto mask = random_bytes(3'000'003 / 8 + 1, 6);
  KLAB_NEED(const auto mask_memory, filled(mask));
  const kernels::PoisonPush poison{0, 3'000'003, {0x03020100, 0x07060504}};
  KLAB_NEED(const auto poisoning,
            builtin(*device, "poison",
                    {{.memory = a.id, .range = 3'000'004}, {.memory = mask_memory.id, .range = mask.size()}},
                    std::as_bytes(std::span(&poison, 1)), {kernels::striding_grid(3'000'003), 1, 1}));
  KLAB_NEED_OK(run(*device, {Step::launch_of(poisoning, false)}));
  std::vector<std::byte> now(bytes.size());
  KLAB_NEED_OK(device->download(a.id, 0, now));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < now.size(); ++i)
    wrong +=
        now[i] !=
        ((std::to_integer<int>(mask[i / 8]) >> (i % 8) & 1) != 0 ? static_cast<std::byte>(i % 8) : bytes[i]);
  EXPECT_EQ(wrong, 0u) << "poisoned bytes that differ from the host's";

  const kernels::FlushPush flush{750'000, 77};
  KLAB_NEED(const auto flushing,
            builtin(*device, "flush", {{.memory = b.id, .range = 3'000'000}},
                    std::as_bytes(std::span(&flush, 1)), {kernels::striding_grid(3'000'000), 1, 1}));
  KLAB_NEED_OK(run(*device, {Step::launch_of(flushing, false)}));
  KLAB_NEED_OK(device->download(b.id, 0, now));
  wrong = 0;
  for (std::size_t i = 0; i < 750'000; ++i) {
    std::uint32_t before = 0, after = 0;
    std::memcpy(&before, other.data() + 4 * i, 4);
    std::memcpy(&after, now.data() + 4 * i, 4);
    wrong += after != before * 0x9e3779b1u + 77;
  }
  EXPECT_EQ(wrong, 0u) << "flushed words that differ from the host's";

  KLAB_NEED(const auto words, filled(bytes_of(std::vector<std::uint64_t>{10, 20, 30})));
  KLAB_NEED(
      const auto entries,
      filled(bytes_of(std::vector<kernels::PatchWord>{{words.address, 10, 11}, {words.address + 8, 9, 21}})));
  const kernels::PatchPush patch{2, 0};
  KLAB_NEED(const auto patching, builtin(*device, "patch", {{.memory = entries.id, .range = 48}},
                                         std::as_bytes(std::span(&patch, 1)), {1, 1, 1}));
  KLAB_NEED_OK(run(*device, {Step::launch_of(patching, false)}));
  std::vector<std::uint64_t> patched(3);
  KLAB_NEED_OK(device->download(words.id, 0, std::as_writable_bytes(std::span(patched))));
  EXPECT_EQ(patched, (std::vector<std::uint64_t>{11, 20, 30}));
}

TEST_F(CudaHardware, memory_comes_to_lie_where_another_process_had_it) {
  // Allocations of a program like any other: two share a granule, one is large.
  const ChildResult program = run_child({"--addresses", "1048576", "4096", "33554432", "209715200"});
  ASSERT_EQ(program.code, kDone) << program.output;
  std::istringstream addresses(program.output);
  std::vector<std::string> arguments{"--place"};
  for (const char* size : {"1048576", "4096", "33554432", "209715200"}) {
    std::string address;
    addresses >> address;
    arguments.insert(arguments.end(), {address, size, "device"});
  }
  // As the worker does it: a collision is cured by another process image.
  int tries = 0;
  ChildResult result;
  do result = run_child(arguments), ++tries;
  while (result.code == kCollision && tries < 8);
  fmt::print("placed at {}: exit {} after {} process(es)\n", program.output, result.code, tries);
  EXPECT_EQ(result.code, kDone) << result.output;
}

TEST_F(CudaHardware, memory_lies_at_chosen_addresses_and_host_memory_at_its_own) {
  const ChildResult device_memory =
      run_child({"--place", "0x100000000000", "5000000", "device", "0x100000500000", "1000", "device",
                 "0x200000000000", "100000000", "managed"});
  EXPECT_EQ(device_memory.code, kDone) << device_memory.output;
  const ChildResult host_memory =
      run_child({"--place", "0x300000001000", "100000", "pinned_host", "0x100000000000", "4096", "device"});
  EXPECT_EQ(host_memory.code, kDone) << host_memory.output;
  EXPECT_THAT(host_memory.output, HasSubstr("host device"))
      << "page-locked host memory fell back to device memory";
}

TEST_F(CudaHardware, a_parameter_buffer_reaches_the_kernel) {
  KLAB_NEED(const auto code, device->load(test_code()));
  std::vector<float> x(100'000), y(100'000);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 1000), y[i] = 1;
  KLAB_NEED(const auto xm, filled(bytes_of(x)));
  KLAB_NEED(const auto ym, filled(bytes_of(y)));
  KLAB_NEED(const auto launch, prepare(*device, code, "axpy", {400, 1, 1}, {256, 1, 1},
                                       Arguments().add(ym.address).add(xm.address).add(3.0f).add(100'000u)));
  KLAB_NEED_OK(run(*device, {Step::launch_of(launch, true)}));
  KLAB_NEED_OK(device->download(ym.id, 0, std::as_writable_bytes(std::span(y))));
  for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], 3 * x[i] + 1) << i;
  KLAB_NEED(const auto figures, device->resources(launch));
  fmt::print("axpy: {}\n", Json(figures).dump());
  EXPECT_GT(figures.vector_registers.value_or(0), 0u);
  EXPECT_GT(figures.occupancy.value_or(0), 0.5);
}

TEST_F(CudaHardware, variables_are_found_by_name_and_kept_between_launches) {
  KLAB_NEED(const auto code, device->load(test_code()));
  KLAB_NEED(const auto counter, device->symbol(code, "counter", 4));
  KLAB_NEED(const auto factor, device->symbol(code, "factor", 4));
  EXPECT_EQ(device->symbol(code, "nowhere", 4).error().code, ErrorCode::missing_symbol);
  EXPECT_EQ(device->symbol(code, "counter", 8).error().code, ErrorCode::invalid_data);
  KLAB_NEED(const auto home, filled(bytes_of(std::vector<std::uint32_t>{100, 3})));
  KLAB_NEED(const auto out, allocate(*device, 4));
  KLAB_NEED(const auto launch,
            prepare(*device, code, "use_variables", {1, 1, 1}, {1, 1, 1}, Arguments().add(out.address)));
  KLAB_NEED_OK(run(*device, {Step::copy_of(counter.id, 0, home.id, 0, 4),
                             Step::copy_of(factor.id, 0, home.id, 4, 4), Step::launch_of(launch, false),
                             Step::launch_of(launch, false), Step::copy_of(home.id, 0, counter.id, 0, 4)}));
  std::uint32_t result = 0, after = 0;
  KLAB_NEED_OK(device->download(out.id, 0, std::as_writable_bytes(std::span(&result, 1))));
  KLAB_NEED_OK(device->download(home.id, 0, std::as_writable_bytes(std::span(&after, 1))));
  EXPECT_EQ(result, 101u * 3);
  EXPECT_EQ(after, 102u);
  KLAB_NEED(const auto names, device->entry_points(code));
  EXPECT_THAT(names, ::testing::Contains("use_variables"));
}

TEST_F(CudaHardware, limits_are_refused_by_name_before_the_launch) {
  KLAB_NEED(const auto code, device->load(test_code()));
  KLAB_NEED(const auto out, allocate(*device, 4));
  auto error = [&](LaunchSpec spec) {
    spec.code = code;
    auto launch = device->prepare(spec);
    return launch ? Error{} : launch.error();
  };
  LaunchSpec spec;
  spec.entry_point = "fill_shared";
  spec.block = {32, 1, 1};
  spec.arguments = Arguments().add(out.address).add(16u);
  LaunchSpec wide = spec;
  wide.block = {2048, 1, 1};
  EXPECT_EQ(error(wide).code, ErrorCode::launch_failed);
  EXPECT_THAT(error(wide).what, HasSubstr("2048 threads"));
  LaunchSpec heavy = spec;
  heavy.dynamic_shared_bytes = 1 << 20;
  EXPECT_EQ(error(heavy).code, ErrorCode::launch_failed);
  EXPECT_THAT(error(heavy).what, HasSubstr("shared memory"));
  LaunchSpec other = spec;
  other.entry_point = "no_such_kernel";
  EXPECT_EQ(error(other).code, ErrorCode::missing_symbol);
  LaunchSpec layout = spec;
  layout.argument_layout = {{0, 8, {}}, {8, 8, {}}};
  EXPECT_EQ(error(layout).code, ErrorCode::launch_failed);
  EXPECT_THAT(error(layout).what, HasSubstr("parameter"));
  LaunchSpec attribute = spec;
  attribute.attributes = {{"coperative", 1}};
  EXPECT_THAT(error(attribute).what, HasSubstr("coperative"));
  LaunchSpec crowd = spec;
  crowd.attributes = {{"cooperative", 1}};
  crowd.grid = {1'000'000, 1, 1};
  EXPECT_THAT(error(crowd).what, HasSubstr("fit on this device at once"));
  EXPECT_EQ(device->place(std::vector<MemoryRequest>{{.size = 4, .pool = "host"}}, false).error().code,
            ErrorCode::unsupported);
}

TEST_F(CudaHardware, large_shared_memory_cooperative_and_cluster_launches_run) {
  KLAB_NEED(const auto code, device->load(test_code()));
  KLAB_NEED(const auto out, allocate(*device, 4));
  auto result_of = [&](const LaunchSpec& spec) -> std::uint32_t {
    auto launch = device->prepare(spec);
    EXPECT_TRUE(launch) << launch.error().what;
    if (!launch) return 0;
    const auto ran = run(*device, {Step::launch_of(*launch, true)});
    EXPECT_TRUE(ran) << ran.error().what;
    std::uint32_t value = 0;
    EXPECT_TRUE(device->download(out.id, 0, std::as_writable_bytes(std::span(&value, 1))));
    return value;
  };
  LaunchSpec spec;
  spec.code = code;
  spec.entry_point = "fill_shared";
  spec.block = {256, 1, 1};
  spec.dynamic_shared_bytes = 90'000;
  spec.arguments = Arguments().add(out.address).add(22'500u);
  EXPECT_EQ(result_of(spec), 22'499u);
  spec.attributes = {{"cooperative", 1}, {"programmatic_stream_serialization", 1}};
  EXPECT_EQ(result_of(spec), 22'499u);
  if (device->identity().device_id < 90) return;
  LaunchSpec cluster;
  cluster.code = code;
  cluster.entry_point = "cluster_size";
  cluster.grid = {8, 1, 1};
  cluster.block = {64, 1, 1};
  cluster.cluster = {4, 1, 1};
  cluster.arguments = Arguments().add(out.address);
  EXPECT_EQ(result_of(cluster), 4u);
}

TEST_F(CudaHardware, code_that_the_driver_refuses_is_typed) {
  auto load = [&](std::string_view text) {
    return device->load(std::as_bytes(std::span(text.data(), text.size())));
  };
  const auto bad =
      load(".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry k() { this is wrong; }\n");
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, ErrorCode::compile_failed) << bad.error().what;
  fmt::print("refused PTX: {}\n", bad.error().what);
  const auto newer = load(".version 99.0\n.target sm_75\n.address_size 64\n.visible .entry k() { ret; }\n");
  ASSERT_FALSE(newer);
  EXPECT_EQ(newer.error().code, ErrorCode::compile_failed) << newer.error().what;
  EXPECT_EQ(load("nonsense").error().code, ErrorCode::invalid_data);
  const auto good = load(".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry k() { ret; }\n");
  EXPECT_TRUE(good) << good.error().what;
}

bundle::TextureObject array_of(std::uint32_t width, std::uint32_t height) {
  bundle::TextureObject t;
  t.handle = 0x7777;  // not to be had: the arguments are patched
  t.resource = "array";
  t.format = "float";
  t.width = width;
  t.height = height;
  return t;
}

TEST_F(CudaHardware, textures_and_surfaces_are_made_anew) {
  constexpr std::uint32_t kWidth = 100, kHeight = 37;
  KLAB_NEED(const auto code, device->load(test_code()));
  std::vector<float> texels(kWidth * kHeight), got(kWidth * kHeight);
  for (std::size_t i = 0; i < texels.size(); ++i) texels[i] = static_cast<float>(i);
  KLAB_NEED(const auto image, filled(bytes_of(texels)));
  KLAB_NEED(const auto out, allocate(*device, texels.size() * 4));
  LaunchSpec spec;
  spec.code = code;
  spec.entry_point = "fetch";
  spec.grid = {(kWidth + 15) / 16, (kHeight + 15) / 16, 1};
  spec.block = {16, 16, 1};
  spec.arguments = Arguments().add<std::uint64_t>(0x7777).add(out.address).add(kWidth).add(kHeight);
  spec.textures = {{array_of(kWidth, kHeight), image.id}};
  KLAB_NEED(const auto fetch, device->prepare(spec));
  for (const auto& note : device->launch_notes(fetch)) fmt::print("note: {}\n", note);
  KLAB_NEED_OK(run(
      *device, {Step::images_of(fetch, true), Step::launch_of(fetch, false), Step::images_of(fetch, false)}));
  KLAB_NEED_OK(device->download(out.id, 0, std::as_writable_bytes(std::span(got))));
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], 2 * texels[i]) << i;
  // Pitched memory, read in place.
  bundle::TextureObject pitched = array_of(kWidth, kHeight);
  pitched.resource = "pitch2d";
  pitched.pitch = 512;
  std::vector<float> rows(128 * kHeight);
  for (std::uint32_t y = 0; y < kHeight; ++y)
    for (std::uint32_t x = 0; x < kWidth; ++x) rows[y * 128 + x] = texels[y * kWidth + x];
  KLAB_NEED(const auto pitched_memory, filled(bytes_of(rows)));
  spec.textures = {{pitched, pitched_memory.id}};
  KLAB_NEED(const auto fetch_pitched, device->prepare(spec));
  KLAB_NEED_OK(
      run(*device, {Step::fill_of(out.id, 0, texels.size() * 4, 0), Step::launch_of(fetch_pitched, false)}));
  KLAB_NEED_OK(device->download(out.id, 0, std::as_writable_bytes(std::span(got))));
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], 2 * texels[i]) << i;
  // A surface: what the kernel wrote comes back to the memory.
  bundle::TextureObject surface = array_of(kWidth, kHeight);
  surface.surface = true;
  KLAB_NEED(const auto surface_memory, filled(bytes_of(texels)));
  spec.entry_point = "store";
  spec.textures = {{surface, surface_memory.id}};
  spec.arguments = Arguments().add<std::uint64_t>(0x7777).add(kWidth).add(kHeight);
  KLAB_NEED(const auto store, device->prepare(spec));
  KLAB_NEED_OK(run(
      *device, {Step::images_of(store, true), Step::launch_of(store, false), Step::images_of(store, false)}));
  KLAB_NEED_OK(device->download(surface_memory.id, 0, std::as_writable_bytes(std::span(got))));
  for (std::uint32_t i = 0; i < got.size(); ++i)
    ASSERT_EQ(got[i], static_cast<float>(i % kWidth + 100 * (i / kWidth))) << i;
}

TEST_F(CudaHardware, times_are_those_of_the_kernel) {
  KLAB_NEED(const auto code, device->load(test_code()));
  KLAB_NEED(const auto took, allocate(*device, 8));
  for (const std::uint64_t ns : {50'000ull, 500'000ull, 5'000'000ull}) {
    KLAB_NEED(const auto launch,
              prepare(*device, code, "spin", {1, 1, 1}, {1, 1, 1}, Arguments().add(ns).add(took.address)));
    std::vector<Step> steps(20, Step::launch_of(launch, true));
    KLAB_NEED_OK(run(*device, {steps[0]}));
    KLAB_NEED(const auto result, run(*device, steps));
    std::uint64_t inside = 0;
    KLAB_NEED_OK(device->download(took.id, 0, std::as_writable_bytes(std::span(&inside, 1))));
    auto sorted = result.launch_ns;
    std::sort(sorted.begin(), sorted.end());
    fmt::print("spin {} ns: events say {:.0f} (min {:.0f}, max {:.0f}), the kernel's own clock {}\n", ns,
               sorted[sorted.size() / 2], sorted.front(), sorted.back(), inside);
    EXPECT_NEAR(sorted[sorted.size() / 2], static_cast<double>(inside),
                0.05 * static_cast<double>(inside) + 3000);
  }
}

TEST_F(CudaHardware, a_bad_address_is_a_device_fault_of_that_process_only) {
  const ChildResult child = run_child({"--launch", "bad_write"});
  fmt::print("bad_write: exit {} in {:.2f} s: {}", child.code, child.seconds, child.output);
  EXPECT_EQ(child.code, kDeviceFault) << child.output;
  EXPECT_THAT(child.output, HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
  EXPECT_THAT(child.output, HasSubstr("then: the device was lost"));
  KLAB_NEED(const auto placed, filled(random_bytes(100)));
  (void)placed;
}

TEST_F(CudaHardware, an_endless_kernel_is_a_timeout_and_the_process_can_leave) {
  const ChildResult child = run_child({"--launch", "endless"});
  fmt::print("endless: exit {} in {:.2f} s: {}", child.code, child.seconds, child.output);
  EXPECT_EQ(child.code, kTimeout) << child.output;
  EXPECT_LT(child.seconds, 10) << "the timeout was 1 s; leaving the process took the rest";
  EXPECT_EQ(run_child({"--addresses", "4096"}).code, kDone) << "the next process cannot use the device";
}

}  // namespace
}  // namespace klab::gpu::hw
