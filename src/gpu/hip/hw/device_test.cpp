// SPDX-License-Identifier: Apache-2.0
// The HIP backend on a device: a GPU, or the simulated one when there is none. Skipped where there is neither.
// KLAB_SIM names the folder of the simulated GPU's driver library, KLAB_TEST_DEVICE picks a device.
#include <cstdlib>
#include <filesystem>

#include "gpu/calibration_checks.h"
#include "gpu/hip/hw/hw.h"

namespace klab::gpu::hip {
namespace {

TEST_F(HipDeviceTest, device_says_what_it_is) {
  const auto& id = device->identity();
  const auto& a = device->abilities();
  fmt::print("{} | {} | {} {} | api {} | uuid {} | {} units, wave {}, LDS {}, LLC {} | addresses by {}\n", id.name, id.arch,
             id.driver, id.driver_version, id.api_version, id.uuid, a.compute_units, a.subgroup_size, a.max_shared_bytes,
             a.last_level_cache, a.fixed_addresses_by);
  EXPECT_EQ(id.api, "hip");
  EXPECT_TRUE(id.arch.starts_with("gfx"));
  EXPECT_FALSE(id.uuid.empty());
  EXPECT_GT(a.compute_units, 0u);
  EXPECT_GE(a.max_shared_bytes, 32768u);
  EXPECT_GE(a.max_block_threads, 256u);
  EXPECT_FALSE(a.counters);
  EXPECT_FALSE(a.clock_readout);
}

TEST_F(HipDeviceTest, upload_and_download_give_back_any_size) {
  for (const std::size_t size : {1u, 4095u, 1u << 20, (40u << 20) + 3}) {
    const auto bytes = random_bytes(size, 3);
    KLAB_NEED(const auto placed, filled(bytes));
    std::vector<std::byte> back(size);
    KLAB_NEED_OK(device->download(placed.id, 0, back));
    EXPECT_TRUE(back == bytes) << size << " bytes";
    device->release(placed.id);
  }
}

TEST_F(HipDeviceTest, hashes_equal_the_host_s_for_all_sizes_and_both_kernels) {
  const auto bytes = random_bytes(300'000, 11);
  KLAB_NEED(const auto data, filled(bytes));
  std::vector<kernels::HashChunk> chunks;
  std::vector<kernels::HashAddressChunk> by_address;
  std::uint32_t at = 0;
  for (const std::uint32_t size : {0u, 1u, 2u, 3u, 4u, 5u, 15u, 16u, 17u, 1000u, 1001u, 65535u, 32768u, 32768u, 32768u, 32768u}) {
    chunks.push_back({at, size});
    by_address.push_back({data.address + at, size, 0});
    at += (size + 3) / 4 * 4;
  }
  by_address.push_back({data.address + 1, 12345, 0});  // an address that is no multiple of 4
  KLAB_NEED(const auto list, filled(bytes_of(chunks)));
  KLAB_NEED(const auto addresses, filled(bytes_of(by_address)));
  KLAB_NEED(const auto out, allocate(16 * by_address.size()));
  const kernels::HashPush push{static_cast<std::uint32_t>(chunks.size()), 0};
  KLAB_NEED(const auto plain, builtin("hash",
                                      {{.binding = 0, .memory = data.id, .range = bytes.size()},
                                       {.binding = 1, .memory = list.id, .range = chunks.size() * 8},
                                       {.binding = 2, .memory = out.id, .range = chunks.size() * 16}},
                                      std::as_bytes(std::span(&push, 1)), {push.count, 1, 1}));
  KLAB_NEED_OK(run(*device, {Step::launch_of(plain, false)}));
  auto got = read<kernels::Hash>(out.id, chunks.size());
  for (std::size_t i = 0; i < chunks.size(); ++i)
    EXPECT_EQ(got[i], kernels::hash_on_host(std::span(bytes).subspan(chunks[i].offset, chunks[i].size)))
        << "hash of " << chunks[i].size << " bytes at " << chunks[i].offset;
  const kernels::HashPush all{static_cast<std::uint32_t>(by_address.size()), 0};
  KLAB_NEED(const auto indirect, builtin("hash_address",
                                         {{.binding = 0, .memory = addresses.id, .range = by_address.size() * 16},
                                          {.binding = 1, .memory = out.id, .range = by_address.size() * 16}},
                                         std::as_bytes(std::span(&all, 1)), {all.count, 1, 1}));
  KLAB_NEED_OK(run(*device, {Step::launch_of(indirect, false)}));
  got = read<kernels::Hash>(out.id, by_address.size());
  for (std::size_t i = 0; i < by_address.size(); ++i)
    EXPECT_EQ(got[i], kernels::hash_on_host(
                          std::span(bytes).subspan(by_address[i].address - data.address, by_address[i].size)))
        << "hash_address of " << by_address[i].size << " bytes";
}

TEST_F(HipDeviceTest, compare_poison_flush_and_patch_do_what_the_host_expects) {
  constexpr std::uint32_t kSize = 100'003;
  auto bytes = random_bytes(kSize, 5);
  KLAB_NEED(const auto a, filled(bytes));
  auto other = bytes;
  other[99'999] ^= std::byte{1};
  other[34'567] ^= std::byte{0x80};
  KLAB_NEED(const auto b, filled(other));
  KLAB_NEED(const auto result, filled(bytes_of(std::vector<kernels::CompareResult>(1))));
  const kernels::ComparePush compare{0, 0, kSize, 0};
  KLAB_NEED(const auto comparing, builtin("compare",
                                          {{.memory = a.id, .range = kSize}, {.memory = b.id, .range = kSize},
                                           {.memory = result.id, .range = 8}},
                                          std::as_bytes(std::span(&compare, 1)), {kernels::striding_grid(kSize), 1, 1}));
  KLAB_NEED_OK(run(*device, {Step::launch_of(comparing, false)}));
  const auto found = read<kernels::CompareResult>(result.id, 1);
  EXPECT_EQ(found[0].differing_bytes, 2u);
  EXPECT_EQ(found[0].first_offset, 34'567u);

  const auto mask = random_bytes(kSize / 8 + 1, 6);
  KLAB_NEED(const auto mask_memory, filled(mask));
  const kernels::PoisonPush poison{0, kSize, {0x03020100, 0x07060504}};
  KLAB_NEED(const auto poisoning,
            builtin("poison", {{.memory = a.id, .range = kSize}, {.memory = mask_memory.id, .range = mask.size()}},
                    std::as_bytes(std::span(&poison, 1)), {kernels::striding_grid(kSize), 1, 1}));
  KLAB_NEED_OK(run(*device, {Step::launch_of(poisoning, false)}));
  const auto now = read<std::byte>(a.id, kSize);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < now.size(); ++i)
    wrong += now[i] !=
             ((std::to_integer<int>(mask[i / 8]) >> (i % 8) & 1) != 0 ? static_cast<std::byte>(i % 8) : bytes[i]);
  EXPECT_EQ(wrong, 0u) << "poisoned bytes that differ from the host's";

  const kernels::FlushPush flush{25'000, 77};
  KLAB_NEED(const auto flushing, builtin("flush", {{.memory = b.id, .range = 100'000}},
                                         std::as_bytes(std::span(&flush, 1)), {kernels::striding_grid(100'000), 1, 1}));
  KLAB_NEED_OK(run(*device, {Step::launch_of(flushing, false)}));
  const auto after = read<std::uint32_t>(b.id, 25'000);
  wrong = 0;
  for (std::size_t i = 0; i < after.size(); ++i) {
    std::uint32_t before = 0;
    std::memcpy(&before, other.data() + 4 * i, 4);
    wrong += after[i] != before * 0x9e3779b1u + 77;
  }
  EXPECT_EQ(wrong, 0u) << "flushed words that differ from the host's";

  KLAB_NEED(const auto words, filled(bytes_of(std::vector<std::uint64_t>{10, 20, 30})));
  KLAB_NEED(const auto entries, filled(bytes_of(std::vector<kernels::PatchWord>{{words.address, 10, 11},
                                                                                  {words.address + 8, 9, 21}})));
  const kernels::PatchPush patch{2, 0};
  KLAB_NEED(const auto patching, builtin("patch", {{.memory = entries.id, .range = 48}},
                                         std::as_bytes(std::span(&patch, 1)), {1, 1, 1}));
  KLAB_NEED_OK(run(*device, {Step::launch_of(patching, false)}));
  EXPECT_EQ(read<std::uint64_t>(words.id, 3), (std::vector<std::uint64_t>{11, 20, 30}));
}

TEST_F(HipDeviceTest, values_are_compared_within_a_tolerance_in_every_type) {
  std::vector<double> wanted(300);
  for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] = static_cast<double>(i) - 150;
  auto got = wanted;
  got[17] += 0.5;
  got[200] += 1e-9;
  constexpr std::uint32_t kKey = 0x1234567;
  std::vector<std::uint32_t> veiled(600);
  std::memcpy(veiled.data(), wanted.data(), 2400);
  for (std::uint32_t i = 0; i < 600; ++i) veiled[i] ^= kernels::veil(i, kKey);
  KLAB_NEED(const auto actual, filled(bytes_of(got)));
  KLAB_NEED(const auto expected, filled(bytes_of(veiled)));
  KLAB_NEED(const auto result, filled(bytes_of(std::vector<kernels::ValuesResult>(1))));
  kernels::ValuesPush push;
  push.count = 300;
  push.stride = 8;
  push.type = kernels::ValueType::f64;
  push.absolute = 1e-6f;
  push.key = kKey;
  KLAB_NEED(const auto launch, builtin("compare_values",
                                       {{.memory = actual.id, .range = 2400}, {.memory = expected.id, .range = 2400},
                                        {.memory = result.id, .range = 16}},
                                       std::as_bytes(std::span(&push, 1)), {4, 1, 1}));
  KLAB_NEED_OK(run(*device, {Step::launch_of(launch, false)}));
  const auto r = read<kernels::ValuesResult>(result.id, 1);
  EXPECT_EQ(r[0].beyond, 1u);
  EXPECT_EQ(r[0].first, 17u);
  EXPECT_EQ(r[0].different, 2u);
}

TEST_F(HipDeviceTest, calibration_kernels_do_what_is_counted) {
  if (device->builtin_kernel("calibrate_fp32").empty()) GTEST_SKIP() << "no calibration kernels for this processor";
  std::vector<std::string> memory, vectors, matrices;
  calibration_checks::check_memory(*device, memory);
  EXPECT_GE(memory.size(), 21u);
  // The simulated GPU has no dot products of bytes.
  if (device->identity().name.starts_with("Simulated")) return;
  calibration_checks::check_vectors(*device, vectors);
  EXPECT_THAT(vectors, ::testing::IsSupersetOf({"calibrate_fp32", "calibrate_fp64", "calibrate_fp16", "calibrate_int32"}));
  calibration_checks::check_matrices(*device, matrices);
  EXPECT_EQ(matrices.empty(), !device->abilities().matrix_units);
}

TEST_F(HipDeviceTest, copies_and_fills_keep_their_order_at_any_alignment) {
  const auto bytes = random_bytes(5000, 9);
  KLAB_NEED(const auto a, filled(bytes));
  KLAB_NEED(const auto b, filled(std::vector<std::byte>(5000)));
  KLAB_NEED_OK(run(*device, {Step::copy_of(b.id, 0, a.id, 0, 1003), Step::copy_of(b.id, 1004, a.id, 8, 1000),
                             Step::copy_of(b.id, 3001, a.id, 7, 501), Step::fill_of(b.id, 16, 64, 0x11223344),
                             Step::copy_of(b.id, 20, a.id, 100, 4)}));
  auto expected = std::vector<std::byte>(5000);
  std::copy_n(bytes.begin(), 1003, expected.begin());
  std::copy_n(bytes.begin() + 8, 1000, expected.begin() + 1004);
  std::copy_n(bytes.begin() + 7, 501, expected.begin() + 3001);
  for (std::size_t i = 0; i < 64; ++i) expected[16 + i] = static_cast<std::byte>(0x11223344u >> (i % 4 * 8));
  std::copy_n(bytes.begin() + 100, 4, expected.begin() + 20);
  EXPECT_TRUE(read<std::byte>(b.id, 5000) == expected);
}

TEST_F(HipDeviceTest, an_in_place_kernel_starts_from_what_is_restored) {
  KLAB_NEED(const auto code, device->load(test_code()));
  std::vector<float> x(1000), y(1000);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 100), y[i] = 1;
  KLAB_NEED(const auto xm, filled(bytes_of(x)));
  KLAB_NEED(const auto ym, filled(bytes_of(y)));
  KLAB_NEED(const auto pristine, filled(bytes_of(y)));
  KLAB_NEED(const auto launch,
            device->prepare(spec_of(code, "axpy", {4, 1, 1}, {256, 1, 1},
                                    Arguments().add(ym.address).add(xm.address).add(3.0f).add(1000u))));
  const Step restore = Step::copy_of(ym.id, 0, pristine.id, 0, 4000), timed = Step::launch_of(launch, true);
  KLAB_NEED(const auto result, run(*device, {timed, restore, timed, restore, timed}));
  ASSERT_EQ(result.launch_ns.size(), 3u);
  for (const double ns : result.launch_ns) EXPECT_GT(ns, 0);
  const auto got = read<float>(ym.id, 1000);
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], 3 * x[i] + 1) << i;
  KLAB_NEED(const auto figures, device->resources(launch));
  EXPECT_GT(figures.vector_registers.value_or(0), 0u);
  EXPECT_GT(figures.scalar_registers.value_or(0), 0u);
  EXPECT_GT(figures.code_bytes.value_or(0), 0u);
  EXPECT_FALSE(figures.occupancy) << "no source for it";
}

TEST_F(HipDeviceTest, shared_memory_is_the_kernel_s_own_and_what_was_asked_for) {
  KLAB_NEED(const auto code, device->load(test_code()));
  std::vector<int> in(5000, 3);
  KLAB_NEED(const auto im, filled(bytes_of(in)));
  KLAB_NEED(const auto out, filled(bytes_of(std::vector<int>{0})));
  KLAB_NEED(const auto reduce,
            device->prepare(spec_of(code, "reduce", {20, 1, 1}, {256, 1, 1},
                                    Arguments().add(im.address).add(out.address).add(5000u))));
  KLAB_NEED_OK(run(*device, {Step::launch_of(reduce, false)}));
  EXPECT_EQ(read<int>(out.id, 1)[0], 15000);
  KLAB_NEED(const auto figures, device->resources(reduce));
  EXPECT_EQ(figures.shared_bytes, 1024u);

  auto spec = spec_of(code, "fill_shared", {1, 1, 1}, {64, 1, 1}, Arguments().add(out.address).add(3000u));
  spec.dynamic_shared_bytes = 12'000;
  KLAB_NEED(const auto dynamic, device->prepare(spec));
  KLAB_NEED_OK(run(*device, {Step::launch_of(dynamic, false)}));
  EXPECT_EQ(read<int>(out.id, 1)[0], 2999);
  KLAB_NEED(const auto dynamic_figures, device->resources(dynamic));
  EXPECT_EQ(dynamic_figures.shared_bytes, 12'000u);
  // A capture that had more does not raise it.
  spec.dynamic_shared_bytes = 400;
  spec.attributes = {{"aql.group_segment_bytes", 60'000}};
  spec.arguments = Arguments().add(out.address).add(100u);
  KLAB_NEED(const auto less, device->prepare(spec));
  KLAB_NEED(const auto less_figures, device->resources(less));
  EXPECT_EQ(less_figures.shared_bytes, 400u);
}

TEST_F(HipDeviceTest, pointers_in_memory_are_followed) {
  KLAB_NEED(const auto code, device->load(test_code()));
  KLAB_NEED(const auto first, filled(bytes_of(std::vector<float>{1, 2, 3})));
  KLAB_NEED(const auto second, filled(bytes_of(std::vector<float>(100, 5))));
  struct Row {
    std::uint64_t values;
    std::uint32_t count, padding;
  };
  KLAB_NEED(const auto rows,
            filled(bytes_of(std::vector<Row>{{first.address, 3, 0}, {second.address, 100, 0}})));
  KLAB_NEED(const auto launch, device->prepare(spec_of(code, "scale_rows", {2, 1, 1}, {64, 1, 1},
                                                       Arguments().add(rows.address).add(2u).add(4.0f))));
  KLAB_NEED_OK(run(*device, {Step::launch_of(launch, false)}));
  EXPECT_EQ(read<float>(first.id, 3), (std::vector<float>{4, 8, 12}));
  EXPECT_EQ(read<float>(second.id, 100), std::vector<float>(100, 20));
}

TEST_F(HipDeviceTest, variables_are_found_by_name_and_kept_between_launches) {
  KLAB_NEED(const auto code, device->load(test_code()));
  KLAB_NEED(const auto counter, device->symbol(code, "counter", 4));
  KLAB_NEED(const auto factor, device->symbol(code, "factor", 4));
  EXPECT_EQ(device->symbol(code, "nowhere", 4).error().code, ErrorCode::missing_symbol);
  EXPECT_EQ(device->symbol(code, "counter", 8).error().code, ErrorCode::invalid_data);
  std::string cannot;
  std::vector<std::string> names;
  for (const auto& v : device->variables(code, cannot)) names.push_back(fmt::format("{} {}", v.name, v.size));
  EXPECT_THAT(names, ::testing::IsSupersetOf({"counter 4", "factor 4"}));
  KLAB_NEED(const auto home, filled(bytes_of(std::vector<std::uint32_t>{100, 3})));
  KLAB_NEED(const auto out, allocate(4));
  KLAB_NEED(const auto launch,
            device->prepare(spec_of(code, "use_variables", {1, 1, 1}, {1, 1, 1}, Arguments().add(out.address))));
  KLAB_NEED_OK(run(*device, {Step::launch_of(launch, false)}));
  EXPECT_EQ(read<std::uint32_t>(out.id, 1)[0], 35u) << "its initial values";
  KLAB_NEED_OK(run(*device, {Step::copy_of(counter.id, 0, home.id, 0, 4), Step::copy_of(factor.id, 0, home.id, 4, 4),
                             Step::launch_of(launch, false), Step::launch_of(launch, false),
                             Step::copy_of(home.id, 0, counter.id, 0, 4)}));
  EXPECT_EQ(read<std::uint32_t>(out.id, 1)[0], 303u);
  EXPECT_EQ(read<std::uint32_t>(home.id, 2)[0], 102u);
  KLAB_NEED(const auto kernels, device->entry_points(code));
  EXPECT_THAT(kernels, ::testing::Contains("use_variables"));
}

TEST_F(HipDeviceTest, partial_blocks_and_all_dimensions_are_as_captured) {
  KLAB_NEED(const auto code, device->load(test_code()));
  KLAB_NEED(const auto out, allocate(24));
  KLAB_NEED(const auto threads, filled(bytes_of(std::vector<std::uint32_t>{0})));
  auto spec = spec_of(code, "geometry", {3, 2, 2}, {64, 2, 1}, Arguments().add(out.address).add(threads.address));
  spec.threads = {130, 3, 2};  // work-items: the last blocks are partial
  KLAB_NEED(const auto partial, device->prepare(spec));
  KLAB_NEED_OK(run(*device, {Step::launch_of(partial, false)}));
  EXPECT_EQ(read<std::uint32_t>(threads.id, 1)[0], 130u * 3 * 2);
  const auto seen = read<std::uint32_t>(out.id, 6);
  EXPECT_EQ(std::vector<std::uint32_t>(seen.begin() + 3, seen.end()), (std::vector<std::uint32_t>{64, 2, 1}));
  spec.threads = {0, 0, 0};
  spec.grid = {5, 1, 1};
  spec.block = {32, 1, 1};  // an override
  KLAB_NEED(const auto whole, device->prepare(spec));
  KLAB_NEED_OK(run(*device, {Step::fill_of(threads.id, 0, 4, 0), Step::launch_of(whole, false)}));
  EXPECT_EQ(read<std::uint32_t>(threads.id, 1)[0], 160u);
  EXPECT_EQ(read<std::uint32_t>(out.id, 6), (std::vector<std::uint32_t>{5, 1, 1, 32, 1, 1}));
}

TEST_F(HipDeviceTest, hidden_arguments_are_made_anew_and_never_the_captured_bytes) {
  KLAB_NEED(const auto code, device->load(test_code()));
  KLAB_NEED(const auto out, allocate(56));
  auto spec = spec_of(code, "hidden", {1, 1, 1}, {1, 1, 1}, Arguments().add(out.address));
  while (spec.arguments.size() < 256) spec.arguments.push_back(std::byte{0xee});  // of a process that is gone
  KLAB_NEED(const auto launch, device->prepare(spec));
  KLAB_NEED_OK(run(*device, {Step::launch_of(launch, false)}));
  for (const std::uint64_t word : read<std::uint64_t>(out.id, 7)) EXPECT_NE(word, 0xeeeeeeeeeeeeeeeeull);
}

TEST_F(HipDeviceTest, a_kernel_that_prints_ends_and_its_output_is_said_to_be_discarded) {
  KLAB_NEED(const auto code, device->load(test_code()));
  KLAB_NEED(const auto out, allocate(128 * 4));
  KLAB_NEED(const auto launch,
            device->prepare(spec_of(code, "prints", {1, 1, 1}, {128, 1, 1}, Arguments().add(out.address))));
  KLAB_NEED_OK(run(*device, {Step::launch_of(launch, false)}, 20));
  EXPECT_EQ(read<std::uint32_t>(out.id, 128)[127], 128u);
  EXPECT_THAT(device->launch_notes(launch), ::testing::Contains(HasSubstr("discarded")));
}

TEST_F(HipDeviceTest, scratch_is_as_large_as_the_kernel_says) {
  KLAB_NEED(const auto code, device->load(test_code()));
  std::vector<std::uint32_t> order(64);
  for (std::uint32_t i = 0; i < 64; ++i) order[i] = i * 37 % 64;
  KLAB_NEED(const auto om, filled(bytes_of(order)));
  KLAB_NEED(const auto out, allocate(512 * 4));
  KLAB_NEED(const auto launch, device->prepare(spec_of(code, "scratch", {2, 1, 1}, {256, 1, 1},
                                                       Arguments().add(out.address).add(om.address))));
  KLAB_NEED_OK(run(*device, {Step::launch_of(launch, false)}));
  const auto got = read<std::uint32_t>(out.id, 512);
  for (std::uint32_t t = 0; t < 512; ++t) {
    std::uint32_t sum = 0;
    for (std::uint32_t i = 0; i < 64; ++i) sum = sum * 3 + order[i] * order[i] + t % 256;
    ASSERT_EQ(got[t], sum) << t;
  }
  KLAB_NEED(const auto figures, device->resources(launch));
  EXPECT_GE(figures.scratch_bytes.value_or(0), 256u);
}

TEST_F(HipDeviceTest, blocks_of_a_cooperative_launch_meet) {
  KLAB_NEED(const auto code, device->load(test_code()));
  KLAB_NEED(const auto count, filled(bytes_of(std::vector<std::uint32_t>{0})));
  KLAB_NEED(const auto seen, allocate(6 * 4));
  auto spec = spec_of(code, "meet", {6, 1, 1}, {64, 1, 1}, Arguments().add(count.address).add(seen.address));
  spec.attributes = {{"cooperative", 1}};
  KLAB_NEED(const auto launch, device->prepare(spec));
  KLAB_NEED(const auto result, run(*device, {Step::launch_of(launch, true), Step::fill_of(count.id, 0, 4, 0),
                                             Step::launch_of(launch, true)}, 20));
  ASSERT_EQ(result.launch_ns.size(), 2u);
  EXPECT_EQ(read<std::uint32_t>(seen.id, 6), std::vector<std::uint32_t>(6, 6));
  spec.grid = {1'000'000, 1, 1};
  const auto crowd = device->prepare(spec);
  ASSERT_FALSE(crowd);
  EXPECT_THAT(crowd.error().what, HasSubstr("fit on this device at once"));
}

TEST_F(HipDeviceTest, limits_are_refused_by_name_before_the_launch) {
  KLAB_NEED(const auto code, device->load(test_code()));
  KLAB_NEED(const auto out, allocate(4));
  const LaunchSpec spec =
      spec_of(code, "fill_shared", {1, 1, 1}, {32, 1, 1}, Arguments().add(out.address).add(16u));
  auto error = [&](LaunchSpec s) {
    auto launch = device->prepare(s);
    return launch ? Error{} : launch.error();
  };
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
  EXPECT_EQ(error(other).code, ErrorCode::missing_symbol) << "never the first kernel";
  LaunchSpec layout = spec;
  layout.argument_layout = {{0, 8, {}, "global_buffer"}, {8, 8, {}, "by_value"}};
  EXPECT_EQ(error(layout).code, ErrorCode::launch_failed);
  EXPECT_THAT(error(layout).what, HasSubstr("parameter"));
  LaunchSpec attribute = spec;
  attribute.attributes = {{"coperative", 1}};
  KLAB_NEED(const auto noted, device->prepare(attribute));
  EXPECT_THAT(device->launch_notes(noted), ::testing::Contains(HasSubstr("coperative")));
  const auto pool = device->place(std::vector<MemoryRequest>{{.size = 4, .pool = "host"}}, false);
  EXPECT_EQ(pool.error().code, ErrorCode::unsupported);
  EXPECT_THAT(pool.error().what, HasSubstr("APU"));
}

TEST_F(HipDeviceTest, code_that_is_not_for_this_device_is_refused_with_its_name) {
  const std::string_view text = "nonsense";
  EXPECT_EQ(device->load(std::as_bytes(std::span(text.data(), text.size()))).error().code, ErrorCode::invalid_data);
  const std::string other = device->identity().arch.starts_with("gfx906") ? "gfx1030" : "gfx906";
  const auto code = kernels::hip_code(other, false);
  if (code.empty()) GTEST_SKIP() << "this build has no code for " << other;
  const auto refused = device->load(code);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
  EXPECT_THAT(refused.error().what, HasSubstr(other));
}

TEST_F(HipDeviceTest, memory_lies_where_it_is_wanted_and_its_kind_is_kept) {
  if (!device->abilities().fixed_addresses) GTEST_SKIP() << "this runtime places nothing at wanted addresses";
  const std::vector<MemoryRequest> requests{
      {.address = 0x200000000000, .size = 100'000, .kind = Kind::device},
      {.address = 0x200000019000, .size = 4096, .kind = Kind::device},
      {.address = 0x200000400000, .size = 3 << 20, .kind = Kind::device},
      {.address = 0x210000000000, .size = 50'000, .kind = Kind::pinned_host},
      {.address = 0x210000100000, .size = 8192, .kind = Kind::managed}};
  for (int round = 0; round < 2; ++round) {
    KLAB_NEED(const auto placed, device->place(requests, true));
    for (std::size_t i = 0; i < placed.size(); ++i) {
      EXPECT_EQ(placed[i].address, requests[i].address);
      EXPECT_EQ(placed[i].pool, i < 3 ? "device" : "host") << i;
      KLAB_NEED_OK(device->upload(placed[i].id, 0, random_bytes(requests[i].size, static_cast<unsigned>(i))));
    }
    std::vector<MemoryId> ids;
    for (const auto& p : placed) ids.push_back(p.id);
    KLAB_NEED(const auto guards, device->guards(ids));
    EXPECT_FALSE(guards.empty());
    for (std::size_t i = 0; i < placed.size(); ++i) {
      const std::uint32_t size = static_cast<std::uint32_t>(requests[i].size);
      // A kernel sees it there too.
      KLAB_NEED(const auto list,
                filled(bytes_of(std::vector<kernels::HashAddressChunk>{{requests[i].address, size, 0}})));
      KLAB_NEED(const auto out, allocate(16));
      const kernels::HashPush push{1, 0};
      KLAB_NEED(const auto hash, builtin("hash_address", {{.memory = list.id, .range = 16}, {.memory = out.id, .range = 16}},
                                         std::as_bytes(std::span(&push, 1)), {1, 1, 1}));
      KLAB_NEED_OK(run(*device, {Step::launch_of(hash, false)}));
      const auto bytes = random_bytes(size, static_cast<unsigned>(i));
      EXPECT_EQ(read<kernels::Hash>(out.id, 1)[0], kernels::hash_on_host(bytes)) << i;
      EXPECT_TRUE(read<std::byte>(placed[i].id, size) == bytes) << i;
    }
    for (const auto& g : guards) device->release(g.memory);
    for (const auto& p : placed) device->release(p.id);
  }
}

TEST_F(HipDeviceTest, a_taken_address_is_a_collision_and_nothing_is_kept) {
  if (!device->abilities().fixed_addresses) GTEST_SKIP() << "this runtime places nothing at wanted addresses";
  const auto here = reinterpret_cast<std::uint64_t>(test_code().data()) / 4096 * 4096;
  const std::vector<MemoryRequest> requests{{.address = 0x220000000000, .size = 4096, .kind = Kind::device},
                                            {.address = here, .size = 4096, .kind = Kind::device}};
  const auto placed = device->place(requests, true);
  ASSERT_FALSE(placed);
  EXPECT_EQ(placed.error().code, ErrorCode::address_collision) << placed.error().what;
  const auto again = device->place(std::span(requests).first(1), true);
  EXPECT_TRUE(again) << again.error().what;
  if (again) device->release(again->at(0).id);
}

/// Ends this process: what the device did, as an exit code.
[[noreturn]] void leave_after(Device& device, const char* kernel, std::uint64_t address) {
  const auto code = device.load(test_code());
  if (!code) ::_exit(90);
  const auto launch = device.prepare(spec_of(*code, kernel, {1, 1, 1}, {1, 1, 1}, Arguments().add(address)));
  if (!launch) ::_exit(91);
  const auto result = run(device, {Step::launch_of(*launch, true)}, 2);
  if (result) ::_exit(92);
  const auto again = run(device, {Step::launch_of(*launch, true)}, 2);
  std::fprintf(stderr, "%s; then: %s\n", result.error().what.c_str(), again ? "ran" : again.error().what.c_str());
  ::_exit(static_cast<int>(result.error().code));
}

TEST_F(HipDeviceTest, a_bad_address_is_a_device_fault_and_the_process_is_not_aborted) {
  EXPECT_EXIT(leave_after(*device, "bad_write", 0xdead00000000),
              ::testing::ExitedWithCode(static_cast<int>(ErrorCode::device_fault)), "then: the device was lost");
}

TEST_F(HipDeviceTest, an_endless_kernel_is_a_timeout_and_the_process_can_leave) {
  KLAB_NEED(const auto flag, filled(bytes_of(std::vector<std::uint32_t>{0})));
  EXPECT_EXIT(leave_after(*device, "endless", flag.address),
              ::testing::ExitedWithCode(static_cast<int>(ErrorCode::timeout)), "did not finish within");
}

}  // namespace
}  // namespace klab::gpu::hip

/// The loader reads LD_LIBRARY_PATH once: with the simulated GPU's driver library this program starts anew.
int main(int argc, char** argv) {
  const char* named = std::getenv("KLAB_SIM");
  const std::filesystem::path folder = named != nullptr ? named : KLAB_SIM_FOLDER;
  const char* now = std::getenv("LD_LIBRARY_PATH");
  const std::string path = now != nullptr ? now : "";
  std::error_code ec;
  if (std::filesystem::exists(folder / "libhsakmt.so.1", ec) && !path.starts_with(folder.string()) &&
      (named != nullptr || !std::filesystem::exists("/dev/kfd", ec))) {
    ::setenv("LD_LIBRARY_PATH", (folder.string() + (path.empty() ? "" : ":" + path)).c_str(), 1);
    ::execv("/proc/self/exe", argv);
  }
  ::testing::InitGoogleTest(&argc, argv);
  const int result = RUN_ALL_TESTS();
  std::fflush(nullptr);
  ::_exit(result);  // threads of the driver may still run
}
