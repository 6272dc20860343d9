// SPDX-License-Identifier: Apache-2.0
// Klab's own kernels (kernels/klab.cu) on HIP: one code object for each processor that they were built for. How they are
// launched: gpu/builtin_plan.
#include <cstring>

#include <fmt/format.h>

#include "gpu/builtin_plan.h"
#include "gpu/hip/device.h"
#include "kernels/kernels.h"

namespace klab::gpu::hip {

// What stands for a kernel is its name here, and load() knows it by its address.
std::span<const std::byte> HipDevice::builtin_kernel(std::string_view name) const {
  if (name == "clock" || kernels::hip_code(facts_.arch, name.starts_with("calibrate_")).empty()) return {};
  return builtin_token(name);
}

Result<std::shared_ptr<HipDevice::Module>> HipDevice::builtin_module(bool calibration) {
  std::shared_ptr<Module>& module = calibration ? calibration_ : builtins_;
  if (!module) {
    const auto code = kernels::hip_code(facts_.arch, calibration);
    if (code.empty())
      return fail(ErrorCode::unsupported, fmt::format("Klab has no such kernels of its own for {}", facts_.arch));
    KLAB_TRY(module, load_module({code.begin(), code.end()}));
  }
  return module;
}

Result<CodeId> HipDevice::load_builtin(std::string_view name) {
  KLAB_TRY(auto module, builtin_module(name.starts_with("calibrate_")));
  codes_[next_id_] = {.module = std::move(module), .builtin = std::string(name), .symbols = {}};
  return next_id_++;
}

Result<HipDevice::Pass> HipDevice::builtin_pass(const Module& module, const std::string& name,
                                                std::span<const std::byte> arguments) {
  Pass pass;
  KLAB_TRY(pass.kernel, kernel(module, name));
  const bundle::HsacoKernel& k = *pass.kernel.facts;
  KLAB_TRY(pass.arguments, argument_block(k.kernarg_bytes));
  std::memset(pass.arguments->bytes, 0, k.kernarg_bytes);
  std::memcpy(pass.arguments->bytes, arguments.data(), std::min<std::size_t>(arguments.size(), k.kernarg_bytes));
  pass.shared_bytes = k.shared_bytes;
  pass.scratch_bytes = k.scratch_bytes;
  return pass;
}

Status HipDevice::prepare_builtin(const Code& code, const LaunchSpec& spec, Launch& launch) {
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
  KLAB_TRY(const BuiltinPlan plan,
           plan_builtin(code.builtin, spec, addresses, std::max(1u, abilities().compute_units), 65535));
  if (plan.scratch_bytes > hash_scratch_size_) {
    // Launches hold no address of it: it may be replaced between batches.
    if (hash_scratch_ != 0) (void)runtime_.hsa_amd_memory_pool_free(reinterpret_cast<void*>(hash_scratch_));
    hash_scratch_ = hash_scratch_size_ = 0;
    KLAB_TRY(void* const memory, pool_allocate(facts_.device_pool, plan.scratch_bytes, " for hashes"));
    hash_scratch_ = reinterpret_cast<std::uint64_t>(memory);
    hash_scratch_size_ = plan.scratch_bytes;
  }
  for (const PlannedPass& p : plan.passes) {
    KLAB_TRY(Pass pass, builtin_pass(*code.module, p.kernel, p.arguments));
    pass.block = p.block;
    for (std::size_t i = 0; i < 3; ++i) pass.threads[i] = p.grid[i] * p.block[i];
    pass.scratch_at = p.scratch_at;
    if (!p.scratch_at) pass.shared_bytes += spec.dynamic_shared_bytes;
    launch.passes.push_back(std::move(pass));
  }
  return {};
}

}  // namespace klab::gpu::hip
