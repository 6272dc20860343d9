// SPDX-License-Identifier: Apache-2.0
// Bandwidths of memory and of the last-level cache, and what a launch costs.
#include <algorithm>
#include <bit>

#include "base/units.h"
#include "measure/summary.h"
#include "worker/calibrate_bench.h"

namespace klab::worker {
namespace {

using kernels::CalibrationKernel, kernels::CalibrationKind, kernels::CalibrationMemoryPush;

constexpr std::uint64_t kMiB = 1ull << 20;
constexpr std::uint64_t kMostGpu = 2048 * kMiB, kMostVulkan = 1024 * kMiB, kMostCpu = 64 * kMiB, kLeast = 16 * kMiB;
constexpr std::uint64_t kCpuCacheSet = 16 * kMiB;
constexpr std::uint64_t kCacheTrafficGpu = 1024 * kMiB, kCacheTrafficCpu = 128 * kMiB;

/// The three arrays: as large as the limits allow, halved while the device has no room.
struct Arrays {
  std::vector<Memory> memory;
  std::uint64_t size = 0;  // bytes of each
  std::vector<BuiltinBinding> bind(std::uint32_t count) const {
    std::vector<BuiltinBinding> list;
    for (std::uint32_t i = 0; i < count; ++i) list.push_back({memory[i].id(), 0, size});
    return list;
  }
};

Result<Arrays> make_arrays(Bench& bench) {
  Gpu& gpu = bench.gpu();
  Arrays a;
  a.size = bench.is_cpu() ? kMostCpu : bench.chooses_block() ? kMostGpu : kMostVulkan;
  // A quarter of the memory for all three, where the most that can be had at once is about all there is.
  if (const std::uint64_t most = gpu.abilities().max_allocation; most != 0 && !bench.is_cpu())
    a.size = std::min(a.size, std::bit_floor(std::max(most / 12, kLeast)));
  for (;; a.size /= 2) {
    Status made;
    a.memory.clear();
    for (int i = 0; i < 3 && made; ++i) {
      auto memory = gpu.allocate(a.size);
      if (memory)
        a.memory.push_back(std::move(*memory));
      else
        made = fail(memory.error());
    }
    if (made) return a;
    if (made.error().code != ErrorCode::out_of_memory || a.size <= kLeast) return fail(made.error());
  }
}

struct Shape {
  std::uint32_t grid = 0, block = 0;  // grid 0: a block for each tile
};

/// Few blocks that stay, and a block for each tile: which is faster differs by GPU.
std::vector<Shape> shapes(const Bench& bench, const CalibrationKernel& k) {
  const std::uint32_t units = bench.units();
  if (bench.is_cpu()) return {{units * 32, kernels::kThreads}};
  if (k.block != 0) return {{units, k.block}};
  if (!bench.chooses_block())
    return {{0, kernels::kThreads}, {units * 8, kernels::kThreads}, {units * 32, kernels::kThreads}};
  return {{units * 2, 1024}, {units * 4, 512}, {units * 8, 256}, {units * 16, 128}, {0, 512}, {0, 256}};
}

std::string say_config(std::uint32_t grid, std::uint32_t block, const kernels::CalibrationFacts& facts,
                       std::uint32_t width) {
  return fmt::format("{} blocks of {} threads, {} accesses in flight a thread", grid, block,
                     std::max<std::uint64_t>(1, facts.work() / std::max(1u, width)));
}

Result<Attempt> attempt(Bench& bench, const CalibrationKernel& k, const kernels::CalibrationFacts& facts,
                        const Arrays& arrays, Shape shape) {
  const std::uint64_t tile = facts.work() * shape.block;
  const auto tiles = static_cast<std::uint32_t>(arrays.size / tile);
  std::uint32_t grid = shape.grid != 0 ? std::min(shape.grid, tiles) : tiles;
  grid = std::min(grid, bench.gpu().abilities().max_grid[0]);
  CalibrationMemoryPush push{.tiles = tiles, .value = 0x3f9d70a4, .scale = 0.75f};
  KLAB_TRY(const Launch launch, bench.prepare(k, arrays.bind(k.arrays), push, grid, shape.block));
  Attempt a{.config = say_config(grid, shape.block, facts, k.width),
            .work = static_cast<double>(tile) * tiles * k.arrays};
  KLAB_TRY_VOID(bench.sample(launch.id(), bench.budget_s(), a));
  return a;
}

/// One launch reads a third of the last-level cache again and again, each block another's part each time.
Result<Attempt> attempt_cache(Bench& bench, const CalibrationKernel& k, const kernels::CalibrationFacts& facts,
                              const Arrays& arrays, Shape shape, std::uint64_t wanted, std::uint64_t& set) {
  const std::uint64_t tile = facts.work() * shape.block;
  std::uint32_t grid = shape.grid;
  while (grid > 1 && grid * tile > wanted) grid = (grid + 1) / 2;
  const auto tiles = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, wanted / (grid * tile)) * grid);
  set = tiles * tile;
  if (set > arrays.size) return fail(ErrorCode::unsupported, "the arrays are smaller than the cache's share");
  const std::uint64_t traffic = bench.is_cpu() ? kCacheTrafficCpu : kCacheTrafficGpu;
  const auto passes = static_cast<std::uint32_t>(std::max<std::uint64_t>(4, traffic / set));
  CalibrationMemoryPush push{.tiles = tiles, .passes = passes, .shift = grid / 2 + 1, .value = 0x3f9d70a4};
  KLAB_TRY(const Launch launch, bench.prepare(k, arrays.bind(k.arrays), push, grid, shape.block));
  Attempt a{.config = say_config(grid, shape.block, facts, k.width) + fmt::format(", {} passes over {}", passes,
                                                                                format_bytes(set)),
            .work = static_cast<double>(set) * passes};
  KLAB_TRY_VOID(bench.sample(launch.id(), bench.budget_s(), a));
  return a;
}

Status fill(Bench& bench, const Arrays& arrays) {
  const auto all = kernels::calibration_kernels();
  const auto k = std::find_if(all.begin(), all.end(), [](const auto& one) { return one.name == "calibrate_fill"; });
  const BuiltinBinding first{arrays.memory[0].id(), 0, arrays.size};
  KLAB_TRY(const auto facts, bench.facts(*k, std::span(&first, 1)));
  std::uint32_t seed = 1;
  for (const Memory& m : arrays.memory) {
    const BuiltinBinding binding{m.id(), 0, arrays.size};
    const auto tiles = static_cast<std::uint32_t>(arrays.size / (facts.work() * kernels::kThreads));
    const CalibrationMemoryPush push{.tiles = tiles, .value = seed++};
    KLAB_TRY(const Launch launch, bench.prepare(*k, std::span(&binding, 1), push,
                                                std::min(tiles, bench.units() * 32), kernels::kThreads));
    const gpu::Step steps[] = {gpu::Step::launch_of(launch.id(), false)};
    KLAB_TRY_VOID(bench.run(steps));
  }
  return {};
}

Status measure_one(Bench& bench, const CalibrationKernel& k, const Arrays& arrays, std::uint64_t cache_set) {
  const auto facts = bench.facts(k, arrays.bind(k.arrays));
  if (!facts) return bench.missing(title(k), facts.error());
  std::vector<Attempt> attempts;
  std::uint64_t set = arrays.size;
  std::optional<Error> refused;
  for (const Shape shape : shapes(bench, k)) {
    if (k.kind == CalibrationKind::cache && shape.grid == 0) continue;
    std::uint64_t this_set = arrays.size;
    auto one = k.kind == CalibrationKind::cache
                   ? attempt_cache(bench, k, *facts, arrays, shape, cache_set, this_set)
                   : attempt(bench, k, *facts, arrays, shape);
    if (!one) {
      KLAB_TRY_VOID(bench.gpu().lost() ? Status(fail(one.error())) : Status{});
      refused = one.error();
      continue;
    }
    if (k.kind == CalibrationKind::cache) set = this_set;
    attempts.push_back(std::move(*one));
  }
  if (attempts.empty()) return bench.missing(title(k), refused.value_or(Error{}));
  bench.note(k, "GB/s", std::move(attempts),
             {{"working_set", k.kind == CalibrationKind::cache ? set : arrays.size * k.arrays}});
  return {};
}

}  // namespace

Status calibrate_memory(Bench& bench) {
  KLAB_TRY(const Arrays arrays, make_arrays(bench));
  KLAB_TRY_VOID(fill(bench, arrays));
  const std::uint64_t cache = bench.gpu().abilities().last_level_cache;
  if (cache != 0 && arrays.size < 8 * cache)
    bench.add_note(fmt::format("arrays of {} are less than eight times the last-level cache of {}: bandwidths of memory "
                               "are partly the cache's",
                               format_bytes(arrays.size), format_bytes(cache)));
  std::uint64_t cache_set = cache / 3;
  if (bench.is_cpu()) cache_set = std::min(cache_set, kCpuCacheSet);
  bool told = false;
  for (const CalibrationKernel& k : kernels::calibration_kernels()) {
    if (k.kind != CalibrationKind::memory && k.kind != CalibrationKind::cache) continue;
    if (k.kind == CalibrationKind::cache && cache == 0) {
      if (!told)
        KLAB_TRY_VOID(bench.missing("last-level cache", {ErrorCode::unsupported,
                                                         "the driver does not say how large it is", "", 0}));
      told = true;
      continue;
    }
    if (bench.gpu()->builtin_kernel(k.name).empty()) continue;  // not in this API
    bench.step(title(k));
    KLAB_TRY_VOID(measure_one(bench, k, arrays, cache_set));
  }
  return {};
}

Status calibrate_launches(Bench& bench) {
  const auto all = kernels::calibration_kernels();
  const auto k = std::find_if(all.begin(), all.end(), [](const auto& one) { return one.name == "calibrate_empty"; });
  bench.step("launches");
  const CalibrationMemoryPush push{.tiles = 1};
  auto prepared = bench.prepare(*k, {}, push, 1, 32);
  if (!prepared) return bench.missing("launches", prepared.error());
  const gpu::Step one[] = {gpu::Step::launch_of(prepared->id(), false)};
  for (int i = 0; i < 3; ++i) KLAB_TRY_VOID(bench.run(one));
  const auto add = [&](const char* name, const char* unit, std::vector<double> values, const std::string& config) {
    const measure::Summary s = measure::summarise(values);
    bench.add_figure({{"kind", "launch"},
                      {"name", name},
                      {"unit", unit},
                      {"value", s.median_ns},
                      {"q1", s.q1_ns},
                      {"q3", s.q3_ns},
                      {"best", std::string_view(unit) == "ns" ? s.min_ns : s.max_ns},
                      {"samples", s.count},
                      {"config", config}});
  };
  const std::string config = "one block that does nothing";
  Attempt device;
  KLAB_TRY_VOID(bench.sample(prepared->id(), 0.02, device, 50));
  add("empty_launch", "ns", std::move(device.ns), config + ", between two timestamps of the device");
  std::vector<double> waits;
  for (int i = 0; i < (bench.is_cpu() ? 50 : 200); ++i) {
    KLAB_TRY(const auto result, bench.run(one));
    waits.push_back(result.wall_ns);
  }
  add("launch_and_wait", "ns", std::move(waits), config + ", submitted and waited for by the host");
  const std::size_t count = bench.is_cpu() ? 500 : 5000;
  const std::vector<gpu::Step> many(count, gpu::Step::launch_of(prepared->id(), false));
  std::vector<double> rates;
  for (int i = 0; i < 5; ++i) {
    KLAB_TRY(const auto result, bench.run(many));
    rates.push_back(static_cast<double>(count) / (std::max(result.wall_ns, 1.0) * 1e-9));
  }
  add("launch_throughput", "1/s", std::move(rates), fmt::format("{} such launches back to back", count));
  return {};
}

}  // namespace klab::worker
