// SPDX-License-Identifier: Apache-2.0
// How Klab's own kernels (kernels/klab.cu) are launched: pointers for bindings, more blocks than asked for
// where that is faster, a second pass for hashes.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "gpu/cuda/device.h"
#include "kernels/calibration.h"
#include "kernels/kernels.h"

namespace klab::gpu::cuda {
namespace {

constexpr std::uint32_t kThreads = kernels::kThreads;
constexpr std::uint32_t kChunksTogether = 4;  // kTogether of kernels/cuda_arithmetic.h
constexpr std::uint32_t kBlocksWanted = 16;   // of hashing, a multiprocessor: some waves of the 4 that fit
constexpr std::uint32_t kMostShares = 64;     // blocks that share a chunk

void add_argument(std::vector<std::byte>& buffer, const void* value, std::size_t size,
                  std::size_t alignment) {
  buffer.resize((buffer.size() + alignment - 1) / alignment * alignment);
  const auto* bytes = static_cast<const std::byte*>(value);
  buffer.insert(buffer.end(), bytes, bytes + size);
}
template <class T>
void add_argument(std::vector<std::byte>& buffer, const T& value) {
  add_argument(buffer, &value, sizeof value, alignof(T));
}

}  // namespace

// All of them are in two modules; what stands for a kernel is its name here, and load() knows it by its address.
std::span<const std::byte> CudaDevice::builtin_kernel(std::string_view name) const {
  if (kernels::cuda_fatbin().empty()) return {};
  for (const std::string_view n : kernels::kToolKernels)
    if (n == name) return std::as_bytes(std::span(n));
  for (const auto& k : kernels::calibration_kernels())
    if (k.name == name) return std::as_bytes(std::span(k.name));
  return {};
}

std::string_view CudaDevice::builtin_name(std::span<const std::byte> code) {
  const auto* start = reinterpret_cast<const char*>(code.data());
  for (const std::string_view n : kernels::kToolKernels)
    if (n.data() == start) return n;
  for (const auto& k : kernels::calibration_kernels())
    if (k.name.data() == start) return k.name;
  return {};
}

Result<CodeId> CudaDevice::load_builtin(std::string_view name) {
  const bool calibrates = name.starts_with("calibrate_");
  CUmodule& module = calibrates ? calibration_ : builtins_;
  if (module == nullptr) {
    const auto code = calibrates ? kernels::cuda_calibration_fatbin() : kernels::cuda_fatbin();
    const CUresult r = driver_.ModuleLoadDataEx(&module, code.data(), 0, nullptr, nullptr);
    if (r != CUDA_SUCCESS)
      return lose(cu_fail(
          r, fmt::format("loading Klab's own kernels on {} (sm_{})", identity().name, identity().device_id),
          ErrorCode::unsupported));
  }
  codes_[next_id_] = {.module = module, .builtin = std::string(name)};
  return next_id_++;
}

Status CudaDevice::prepare_builtin(const Code& code, const LaunchSpec& spec, Launch& launch) {
  Pass pass;
  KLAB_TRY(pass.function, function(code, "klab_" + code.builtin));
  pass.grid = spec.grid;
  pass.block = spec.block[0] != 0 ? spec.block : bundle::Dim3{kThreads, 1, 1};
  pass.shared_bytes = spec.dynamic_shared_bytes;
  if (pass.shared_bytes > static_cast<std::uint32_t>(facts_.shared_per_block))
    KLAB_CU_TRY(driver_.FuncSetAttribute(pass.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                         static_cast<int>(pass.shared_bytes)),
                fmt::format("{} bytes of shared memory for {}", pass.shared_bytes, code.builtin),
                ErrorCode::launch_failed);
  std::vector<std::uint64_t> addresses;
  for (const LaunchSpec::Bound& b : spec.bindings) {
    if (b.memory == 0) {
      launch.compile_only = true;
      addresses.push_back(0);
      continue;
    }
    KLAB_TRY(const Memory* m, memory(b.memory, b.offset, b.range));
    addresses.push_back(m->address + b.offset);
  }
  const bool by_address = code.builtin == "hash_address";
  if (code.builtin == "hash" || by_address) {
    kernels::HashPush push;
    const std::size_t inputs = by_address ? 1 : 2;
    if (spec.push_constants.size() != sizeof push || addresses.size() != inputs + 1)
      return fail(ErrorCode::internal,
                  fmt::format("a launch of \"{}\" with {} bindings", code.builtin, addresses.size()));
    std::memcpy(&push, spec.push_constants.data(), sizeof push);
    const std::uint32_t groups = std::max(1u, (push.count + kChunksTogether - 1) / kChunksTogether);
    const std::uint32_t wanted = kBlocksWanted * static_cast<std::uint32_t>(facts_.multiprocessors);
    const std::uint32_t shares = std::clamp((wanted + groups - 1) / groups, 2u, kMostShares);
    const std::uint64_t scratch = std::uint64_t{push.count} * shares * sizeof(kernels::Hash);
    if (scratch > hash_scratch_size_) {
      // Launches hold no address of it, and everything uses one stream: it may be replaced between batches.
      if (hash_scratch_ != 0) (void)driver_.MemFree(hash_scratch_);
      hash_scratch_ = 0;
      hash_scratch_size_ = 0;
      KLAB_CU_TRY(driver_.MemAlloc(&hash_scratch_, scratch),
                  fmt::format("cuMemAlloc of {} bytes for hashes", scratch), ErrorCode::out_of_memory);
      hash_scratch_size_ = scratch;
    }
    pass.grid = {shares, std::min(groups, abilities().max_grid[1]), 1};
    for (std::size_t i = 0; i < inputs; ++i) add_argument(pass.arguments, addresses[i]);
    pass.scratch_at = pass.arguments.size();
    add_argument(pass.arguments, std::uint64_t{0});
    add_argument(pass.arguments, push);
    Pass finish;
    KLAB_TRY(finish.function, function(code, "klab_hash_finish"));
    finish.block = {kThreads, 1, 1};
    finish.grid = {std::clamp((push.count + kThreads / 32 - 1) / (kThreads / 32), 1u, 4096u), 1, 1};
    add_argument(finish.arguments, addresses[inputs - 1]);
    add_argument(finish.arguments, static_cast<std::uint32_t>(by_address ? sizeof(kernels::HashAddressChunk)
                                                                         : sizeof(kernels::HashChunk)));
    add_argument(finish.arguments,
                 static_cast<std::uint32_t>(by_address ? offsetof(kernels::HashAddressChunk, size)
                                                       : offsetof(kernels::HashChunk, size)));
    finish.scratch_at = finish.arguments.size();
    add_argument(finish.arguments, std::uint64_t{0});
    add_argument(finish.arguments, shares);
    add_argument(finish.arguments, addresses[inputs]);
    add_argument(finish.arguments, push);
    launch.passes = {std::move(pass), std::move(finish)};
    return {};
  }
  for (const std::uint64_t a : addresses) add_argument(pass.arguments, a);
  add_argument(pass.arguments, spec.push_constants.data(), spec.push_constants.size(), 4);
  launch.passes.push_back(std::move(pass));
  return {};
}

}  // namespace klab::gpu::cuda
