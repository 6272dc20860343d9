// SPDX-License-Identifier: Apache-2.0
// main() of the hardware tests: child modes, tests, then a table of what the backend costs on this device.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include <fmt/format.h>

#include "gpu/cuda/hw/hw.h"

namespace klab::gpu::hw {
namespace {

double seconds_of(const std::function<Status()>& work, int times = 5) {
  double best = 1e9;
  for (int i = 0; i < times; ++i) {
    const auto start = std::chrono::steady_clock::now();
    if (auto s = work(); !s) {
      fmt::print("  failed: {}\n", s.error().what);
      return 0;
    }
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

double median_ns(Result<BatchResult> result) {
  if (!result || result->launch_ns.empty()) {
    if (!result) fmt::print("  failed: {}\n", result.error().what);
    return 0;
  }
  auto& ns = result->launch_ns;
  std::sort(ns.begin(), ns.end());
  return ns[ns.size() / 2];
}

void row(const std::string& what, double value, const char* unit) {
  fmt::print("  {:<52} {:>10.2f} {}\n", what, value, unit);
}

Status hash_rate(Device& device, std::uint32_t chunks) {
  constexpr std::uint64_t kMiB = 1 << 20;
  KLAB_TRY(const auto data, allocate(device, chunks * kMiB));
  std::vector<kernels::HashAddressChunk> list;
  for (std::uint32_t i = 0; i < chunks; ++i) list.push_back({data.address + i * kMiB, kMiB, 0});
  KLAB_TRY(const auto list_memory, allocate(device, list.size() * 16));
  KLAB_TRY(const auto out, allocate(device, list.size() * 16));
  KLAB_TRY_VOID(device.upload(list_memory.id, 0, std::as_bytes(std::span(list))));
  const kernels::HashPush push{chunks, 0};
  KLAB_TRY(const auto launch, builtin(device, "hash_address",
                                      {{.binding = 0, .memory = list_memory.id, .range = list.size() * 16},
                                       {.binding = 1, .memory = out.id, .range = list.size() * 16}},
                                      std::as_bytes(std::span(&push, 1)), {chunks, 1, 1}));
  KLAB_TRY_VOID(run(device, {Step::launch_of(launch, false)}));
  const double ns = median_ns(run(device, std::vector<Step>(20, Step::launch_of(launch, true))));
  row(fmt::format("hash of {} chunks of 1 MiB, {:.1f} us", chunks, ns / 1e3), ns > 0 ? chunks * kMiB / ns : 0,
      "GB/s");
  for (const auto id : {data.id, list_memory.id, out.id}) device.release(id);
  return {};
}

Status streaming_rates(Device& device) {
  constexpr std::uint64_t kBytes = 1ull << 30;
  KLAB_TRY(const auto a, allocate(device, kBytes));
  KLAB_TRY(const auto b, allocate(device, kBytes));
  KLAB_TRY(const auto result, allocate(device, 8));
  const kernels::ComparePush compare{0, 0, static_cast<std::uint32_t>(kBytes), 0};
  KLAB_TRY(const auto comparing,
           builtin(device, "compare",
                   {{.memory = a.id, .range = kBytes},
                    {.memory = b.id, .range = kBytes},
                    {.memory = result.id, .range = 8}},
                   std::as_bytes(std::span(&compare, 1)), {kernels::striding_grid(kBytes), 1, 1}));
  const kernels::FlushPush flush{static_cast<std::uint32_t>(kBytes / 4), 3};
  KLAB_TRY(const auto flushing,
           builtin(device, "flush", {{.memory = a.id, .range = kBytes}}, std::as_bytes(std::span(&flush, 1)),
                   {kernels::striding_grid(kBytes), 1, 1}));
  KLAB_TRY_VOID(run(device, {Step::copy_of(b.id, 0, a.id, 0, kBytes), Step::launch_of(comparing, false),
                             Step::launch_of(flushing, false), Step::copy_of(b.id, 0, a.id, 0, kBytes)}));
  const double compare_ns = median_ns(run(device, std::vector<Step>(10, Step::launch_of(comparing, true))));
  const double flush_ns = median_ns(run(device, std::vector<Step>(10, Step::launch_of(flushing, true))));
  row("compare of 1 GiB with 1 GiB, bytes read", compare_ns > 0 ? 2 * kBytes / compare_ns : 0, "GB/s");
  row("flush of 1 GiB, bytes read and written", flush_ns > 0 ? 2 * kBytes / flush_ns : 0, "GB/s");
  std::vector<std::byte> host(kBytes, std::byte{1});
  row("upload of 1 GiB",
      kBytes / 1e9 /
          seconds_of(
              [&]() -> Status {
                KLAB_TRY_VOID(device.upload(a.id, 0, host));
                std::byte last{};
                return device.download(a.id, kBytes - 1, std::span(&last, 1));
              },
              3),
      "GB/s");
  row("upload of 1 GiB in pieces of 1 MiB",
      kBytes / 1e9 /
          seconds_of(
              [&]() -> Status {
                for (std::uint64_t at = 0; at < kBytes; at += 1 << 20)
                  KLAB_TRY_VOID(device.upload(a.id, at, std::span(host).subspan(at, 1 << 20)));
                std::byte last{};
                return device.download(a.id, kBytes - 1, std::span(&last, 1));
              },
              3),
      "GB/s");
  row("download of 1 GiB", kBytes / 1e9 / seconds_of([&] { return device.download(a.id, 0, host); }, 3),
      "GB/s");
  row("download of 1 MiB",
      1e6 * seconds_of([&] { return device.download(a.id, 0, std::span(host).first(1 << 20)); }, 20), "us");
  for (const auto id : {a.id, b.id, result.id}) device.release(id);
  return {};
}

Status launch_costs(Device& device) {
  KLAB_TRY(const auto code, device.load(test_code()));
  KLAB_TRY(const auto launch, prepare(device, code, "nothing", {1, 1, 1}, {32, 1, 1}, {}));
  KLAB_TRY_VOID(run(device, {Step::launch_of(launch, false)}));
  row("launch and wait, round trip",
      1e6 * seconds_of(
                [&]() -> Status {
                  KLAB_TRY_VOID(run(device, {Step::launch_of(launch, false)}));
                  return {};
                },
                200),
      "us");
  row("timed launch and wait, round trip",
      1e6 * seconds_of(
                [&]() -> Status {
                  KLAB_TRY_VOID(run(device, {Step::launch_of(launch, true)}));
                  return {};
                },
                200),
      "us");
  row("time of a kernel that does nothing, alone", median_ns(run(device, {Step::launch_of(launch, true)})),
      "ns");
  row("time of a kernel that does nothing, one of 1000",
      median_ns(run(device, std::vector<Step>(1000, Step::launch_of(launch, true)))), "ns");
  row("1000 launches, each",
      1e6 / 1000 * seconds_of([&]() -> Status {
        KLAB_TRY_VOID(run(device, std::vector<Step>(1000, Step::launch_of(launch, false))));
        return {};
      }),
      "us");
  row("loading a fat binary", 1e6 * seconds_of([&]() -> Status {
                                KLAB_TRY(const auto id, device.load(test_code()));
                                device.unload(id);
                                return {};
                              }),
      "us");
  return {};
}

void print_figures() {
  auto device = open_device();
  if (!device) return;
  fmt::print("\nfigures on {} (driver {}):\n", (*device)->identity().name,
             (*device)->identity().driver_version);
  for (const auto& part : {launch_costs(**device), hash_rate(**device, 1), hash_rate(**device, 64),
                           hash_rate(**device, 8192), streaming_rates(**device)})
    if (!part) fmt::print("  failed: {}\n", part.error().what);
}

}  // namespace
}  // namespace klab::gpu::hw

int main(int argc, char** argv) {
  klab::gpu::hw::child_main(argc, argv);
  ::testing::InitGoogleTest(&argc, argv);
  const int failed = RUN_ALL_TESTS();
  klab::gpu::hw::print_figures();
  return failed;
}
