// SPDX-License-Identifier: Apache-2.0
// Klab's own kernels (kernels/klab.cu) on CUDA. How they are launched: gpu/builtin_plan.
#include <fmt/format.h>

#include "gpu/builtin_plan.h"
#include "gpu/cuda/device.h"
#include "kernels/calibration.h"
#include "kernels/kernels.h"

namespace klab::gpu::cuda {
// All of them are in two modules; what stands for a kernel is its name here, and load() knows it by its address.
std::span<const std::byte> CudaDevice::builtin_kernel(std::string_view name) const {
  if (kernels::cuda_fatbin().empty()) return {};
  return builtin_token(name);
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
           plan_builtin(code.builtin, spec, addresses, static_cast<std::uint32_t>(facts_.multiprocessors),
                        abilities().max_grid[1]));
  if (plan.scratch_bytes > hash_scratch_size_) {
    // Launches hold no address of it, and everything uses one stream: it may be replaced between batches.
    if (hash_scratch_ != 0) (void)driver_.MemFree(hash_scratch_);
    hash_scratch_ = 0;
    hash_scratch_size_ = 0;
    KLAB_CU_TRY(driver_.MemAlloc(&hash_scratch_, plan.scratch_bytes),
                fmt::format("cuMemAlloc of {} bytes for hashes", plan.scratch_bytes), ErrorCode::out_of_memory);
    hash_scratch_size_ = plan.scratch_bytes;
  }
  for (const PlannedPass& p : plan.passes) {
    Pass pass{.grid = p.grid, .block = p.block, .arguments = p.arguments, .scratch_at = p.scratch_at};
    KLAB_TRY(pass.function, function(code, p.kernel));
    if (!p.scratch_at) pass.shared_bytes = spec.dynamic_shared_bytes;
    if (pass.shared_bytes > static_cast<std::uint32_t>(facts_.shared_per_block))
      KLAB_CU_TRY(driver_.FuncSetAttribute(pass.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                           static_cast<int>(pass.shared_bytes)),
                  fmt::format("{} bytes of shared memory for {}", pass.shared_bytes, code.builtin),
                  ErrorCode::launch_failed);
    launch.passes.push_back(std::move(pass));
  }
  return {};
}

}  // namespace klab::gpu::cuda
