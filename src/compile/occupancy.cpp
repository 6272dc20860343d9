// SPDX-License-Identifier: Apache-2.0
#include "compile/occupancy.h"

#include <algorithm>

namespace klab::compile {
namespace {

// CUDA C++ Programming Guide 13.0, "Compute Capabilities", tables "Technical Specifications per Compute
// Capability" and "Shared Memory". Warps are 32 threads and registers are 64 K everywhere here. Shared memory
// in KiB.
constexpr std::uint32_t kKiB = 1024;
constexpr SmLimits kLimits[] = {
    {75, 1024, 16, 65536, 64 * kKiB, 64 * kKiB, 0},
    {80, 2048, 32, 65536, 164 * kKiB, 163 * kKiB, kKiB},
    {86, 1536, 16, 65536, 100 * kKiB, 99 * kKiB, kKiB},
    {87, 1536, 16, 65536, 164 * kKiB, 163 * kKiB, kKiB},
    {89, 1536, 24, 65536, 100 * kKiB, 99 * kKiB, kKiB},
    {90, 2048, 32, 65536, 228 * kKiB, 227 * kKiB, kKiB},
    {100, 2048, 32, 65536, 228 * kKiB, 227 * kKiB, kKiB},
    {103, 2048, 32, 65536, 228 * kKiB, 227 * kKiB, kKiB},
    {110, 1536, 24, 65536, 228 * kKiB, 227 * kKiB, kKiB},
    {120, 1536, 24, 65536, 100 * kKiB, 99 * kKiB, kKiB},
    {121, 1536, 24, 65536, 100 * kKiB, 99 * kKiB, kKiB},
};
// Of all of these (cuda_occupancy.h of the toolkit): registers are given to a warp in steps of 256, a
// multiprocessor has four partitions, and shared memory is given to a block in steps of 128 bytes (256
// before 8.0).
constexpr std::uint32_t kWarp = 32, kRegisterStep = 256, kPartitions = 4;

constexpr std::uint64_t rounded(std::uint64_t value, std::uint64_t step) {
  return (value + step - 1) / step * step;
}

}  // namespace

std::optional<SmLimits> sm_limits(std::uint32_t number) {
  for (const SmLimits& limits : kLimits)
    if (limits.number == number) return limits;
  return std::nullopt;
}

void to_json(Json& j, const Occupancy& v) {
  j = Json{{"blocks", v.blocks},
           {"warps", v.warps},
           {"max_warps", v.max_warps},
           {"fraction", v.fraction},
           {"limited_by", v.limited_by}};
}

void from_json(const Json& j, Occupancy& v) {
  read_optional(j, "blocks", v.blocks);
  read_optional(j, "warps", v.warps);
  read_optional(j, "max_warps", v.max_warps);
  read_optional(j, "fraction", v.fraction);
  read_optional(j, "limited_by", v.limited_by);
}

std::optional<Occupancy> occupancy(const KernelFacts& kernel, std::uint32_t arch, std::uint32_t threads,
                                   std::uint64_t dynamic_shared) {
  const auto limits = sm_limits(arch);
  if (!limits || !kernel.registers || threads == 0) return std::nullopt;
  Occupancy result;
  result.max_warps = limits->threads / kWarp;
  const std::uint32_t warps = (threads + kWarp - 1) / kWarp;
  const auto nothing = [&](std::string why) {
    result.limited_by = std::move(why);
    return result;
  };
  if (threads > 1024) return nothing("a block has more than 1024 threads");
  struct Limit {
    std::uint64_t blocks;
    const char* by;
  };
  std::uint64_t by_registers = limits->blocks;
  if (*kernel.registers > 0) {
    const std::uint64_t per_warp = rounded(std::uint64_t{*kernel.registers} * kWarp, kRegisterStep);
    const std::uint64_t per_partition = limits->registers / kPartitions / per_warp;
    by_registers = per_partition * kPartitions / warps;
    // The launch check counts whole rounds over the partitions.
    if (per_warp * rounded(warps, kPartitions) > limits->registers)
      return nothing("a block asks for more registers than there are");
  }
  const std::uint64_t asked = kernel.shared_bytes + dynamic_shared;
  if (asked < dynamic_shared || asked > limits->block_shared_bytes)
    return nothing("a block asks for more shared memory than there is");
  const std::uint64_t shared = rounded(asked + limits->reserved_shared, arch < 80 ? 256 : 128);
  const Limit all[] = {{limits->threads / kWarp / warps, "threads"},
                       {by_registers, "registers"},
                       {shared > 0 ? limits->shared_bytes / shared : limits->blocks, "shared memory"},
                       {limits->blocks, "blocks"}};
  const Limit& least = *std::min_element(std::begin(all), std::end(all),
                                         [](const Limit& a, const Limit& b) { return a.blocks < b.blocks; });
  result.blocks = static_cast<std::uint32_t>(least.blocks);
  result.warps = result.blocks * warps;
  result.fraction = static_cast<double>(result.warps) / result.max_warps;
  result.limited_by = least.by;
  return result;
}

}  // namespace klab::compile
