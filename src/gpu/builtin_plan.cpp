// SPDX-License-Identifier: Apache-2.0
#include "gpu/builtin_plan.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "kernels/calibration.h"
#include "kernels/kernels.h"

namespace klab::gpu {
namespace {

constexpr std::uint32_t kThreads = kernels::kThreads;
constexpr std::uint32_t kChunksTogether = 4;  // kTogether of kernels/cuda_arithmetic.h
constexpr std::uint32_t kBlocksWanted = 16;   // of hashing, a multiprocessor: some waves of the 4 that fit
constexpr std::uint32_t kMostShares = 64;     // blocks that share a chunk

}  // namespace

void add_argument(std::vector<std::byte>& buffer, const void* value, std::size_t size, std::size_t alignment) {
  buffer.resize((buffer.size() + alignment - 1) / alignment * alignment);
  const auto* bytes = static_cast<const std::byte*>(value);
  buffer.insert(buffer.end(), bytes, bytes + size);
}

std::span<const std::byte> builtin_token(std::string_view name) {
  for (const std::string_view n : kernels::kToolKernels)
    if (n == name) return std::as_bytes(std::span(n));
  for (const auto& k : kernels::calibration_kernels())
    if (k.name == name) return std::as_bytes(std::span(k.name));
  return {};
}

std::string_view builtin_name(std::span<const std::byte> code) {
  const auto* start = reinterpret_cast<const char*>(code.data());
  for (const std::string_view n : kernels::kToolKernels)
    if (n.data() == start) return n;
  for (const auto& k : kernels::calibration_kernels())
    if (k.name.data() == start) return k.name;
  return {};
}

Result<BuiltinPlan> plan_builtin(std::string_view name, const LaunchSpec& spec, std::span<const std::uint64_t> addresses,
                                 std::uint32_t multiprocessors, std::uint32_t most_groups) {
  BuiltinPlan plan;
  PlannedPass pass{.kernel = fmt::format("klab_{}", name),
                   .grid = spec.grid,
                   .block = spec.block[0] != 0 ? spec.block : bundle::Dim3{kThreads, 1, 1}};
  const bool by_address = name == "hash_address";
  if (name != "hash" && !by_address) {
    for (const std::uint64_t a : addresses) add_argument(pass.arguments, a);
    add_argument(pass.arguments, spec.push_constants.data(), spec.push_constants.size(), 4);
    plan.passes.push_back(std::move(pass));
    return plan;
  }
  kernels::HashPush push;
  const std::size_t inputs = by_address ? 1 : 2;
  if (spec.push_constants.size() != sizeof push || addresses.size() != inputs + 1)
    return fail(ErrorCode::internal, fmt::format("a launch of \"{}\" with {} bindings", name, addresses.size()));
  std::memcpy(&push, spec.push_constants.data(), sizeof push);
  const std::uint32_t groups = std::max(1u, (push.count + kChunksTogether - 1) / kChunksTogether);
  const std::uint32_t wanted = kBlocksWanted * multiprocessors;
  const std::uint32_t shares = std::clamp((wanted + groups - 1) / groups, 2u, kMostShares);
  plan.scratch_bytes = std::uint64_t{push.count} * shares * sizeof(kernels::Hash);
  pass.grid = {shares, std::min(groups, most_groups), 1};
  for (std::size_t i = 0; i < inputs; ++i) add_argument(pass.arguments, addresses[i]);
  pass.scratch_at = pass.arguments.size();
  add_argument(pass.arguments, std::uint64_t{0});
  add_argument(pass.arguments, push);
  PlannedPass finish{.kernel = "klab_hash_finish",
                     .grid = {std::clamp((push.count + kThreads / 32 - 1) / (kThreads / 32), 1u, 4096u), 1, 1},
                     .block = {kThreads, 1, 1}};
  add_argument(finish.arguments, addresses[inputs - 1]);
  add_argument(finish.arguments,
               static_cast<std::uint32_t>(by_address ? sizeof(kernels::HashAddressChunk) : sizeof(kernels::HashChunk)));
  add_argument(finish.arguments, static_cast<std::uint32_t>(by_address ? offsetof(kernels::HashAddressChunk, size)
                                                                       : offsetof(kernels::HashChunk, size)));
  finish.scratch_at = finish.arguments.size();
  add_argument(finish.arguments, std::uint64_t{0});
  add_argument(finish.arguments, shares);
  add_argument(finish.arguments, addresses[inputs]);
  add_argument(finish.arguments, push);
  plan.passes = {std::move(pass), std::move(finish)};
  return plan;
}

}  // namespace klab::gpu
