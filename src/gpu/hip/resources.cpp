// SPDX-License-Identifier: Apache-2.0
// Figures of a compiled kernel, from its code object's metadata.
#include <fmt/format.h>

#include "gpu/hip/device.h"

namespace klab::gpu::hip {

/// No occupancy: how many waves fit beside each other depends on how registers are handed out, which neither the code
/// object nor the runtime says.
Result<Resources> HipDevice::resources(LaunchId id) {
  KLAB_TRY_VOID(check_alive());
  const auto it = launches_.find(id);
  if (it == launches_.end()) return fail(ErrorCode::internal, fmt::format("no launch {}", id));
  const Launch& launch = it->second;
  const Pass& pass = launch.passes.front();
  const bundle::HsacoKernel& k = *pass.kernel.facts;
  Resources r;
  r.vector_registers = k.vector_registers;
  r.scalar_registers = k.scalar_registers;
  if (k.vector_spills || k.scalar_spills) r.spilled_registers = k.vector_spills.value_or(0) + k.scalar_spills.value_or(0);
  r.scratch_bytes = pass.scratch_bytes;
  r.shared_bytes = pass.shared_bytes;
  if (k.code_bytes != 0) r.code_bytes = k.code_bytes;
  if (k.wavefront_size != 0) r.subgroup_size = k.wavefront_size;
  r.driver = {{"static_shared_bytes", std::to_string(k.shared_bytes)},
              {"dynamic_shared_bytes", std::to_string(launch.dynamic_shared_bytes)},
              {"kernarg_bytes", std::to_string(k.kernarg_bytes)},
              {"max_threads_a_block", std::to_string(k.max_block_threads)},
              {"code_object_version", std::to_string(launch.module->facts.abi_version)}};
  auto add = [&](const char* name, const auto& value) {
    if (value) r.driver.push_back({name, std::to_string(*value)});
  };
  add("accumulation_registers", k.accumulation_registers);
  add("vector_register_spills", k.vector_spills);
  add("scalar_register_spills", k.scalar_spills);
  return r;
}

}  // namespace klab::gpu::hip
