// SPDX-License-Identifier: Apache-2.0
// Figures of a compiled kernel, as the driver has them.
#include <fmt/format.h>

#include "gpu/cuda/code_object.h"
#include "gpu/cuda/device.h"

namespace klab::gpu::cuda {

Result<Resources> CudaDevice::resources(LaunchId id) {
  KLAB_TRY_VOID(check_alive());
  const auto it = launches_.find(id);
  if (it == launches_.end()) return fail(ErrorCode::internal, fmt::format("no launch {}", id));
  const Launch& launch = it->second;
  const Pass& pass = launch.passes.front();
  const CUfunction f = pass.function;
  KLAB_TRY(const int registers, attribute(f, CU_FUNC_ATTRIBUTE_NUM_REGS, "NUM_REGS"));
  KLAB_TRY(const int local, attribute(f, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, "LOCAL_SIZE_BYTES"));
  KLAB_TRY(const int shared, attribute(f, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, "SHARED_SIZE_BYTES"));
  KLAB_TRY(const int constant, attribute(f, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, "CONST_SIZE_BYTES"));
  KLAB_TRY(const int threads, attribute(f, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, "MAX_THREADS_PER_BLOCK"));
  KLAB_TRY(const int ptx, attribute(f, CU_FUNC_ATTRIBUTE_PTX_VERSION, "PTX_VERSION"));
  KLAB_TRY(const int binary, attribute(f, CU_FUNC_ATTRIBUTE_BINARY_VERSION, "BINARY_VERSION"));
  KLAB_TRY(const int blocks, blocks_per_multiprocessor(pass));
  Resources r;
  r.vector_registers = static_cast<std::uint32_t>(registers);
  r.scratch_bytes = static_cast<std::uint64_t>(local);
  r.shared_bytes = static_cast<std::uint64_t>(shared) + pass.shared_bytes;
  r.subgroup_size = abilities().subgroup_size;
  const std::uint32_t block = pass.block[0] * pass.block[1] * pass.block[2], warp = abilities().subgroup_size;
  const double warps = static_cast<double>((block + warp - 1) / warp);
  const double most = static_cast<double>(facts_.threads_per_multiprocessor) / warp;
  r.occupancy = blocks * warps / most;
  r.driver = {
      {"static_shared_bytes", std::to_string(shared)},
      {"dynamic_shared_bytes", std::to_string(pass.shared_bytes)},
      {"constant_bytes", std::to_string(constant)},
      {"local_bytes_a_thread", std::to_string(local)},
      {"max_threads_a_block", std::to_string(threads)},
      {"blocks_a_multiprocessor", std::to_string(blocks)},
      {"multiprocessors", std::to_string(facts_.multiprocessors)},
      {"waves", fmt::format("{:.3f}", static_cast<double>(pass.grid[0]) * pass.grid[1] * pass.grid[2] /
                                          std::max(1, blocks * facts_.multiprocessors))},
      {"ptx_version", fmt::format("{}.{}", ptx / 10, ptx % 10)},
      {"binary_version", fmt::format("{}.{}", binary / 10, binary % 10)}};
  if (launch.cluster_size > 0) {
    const CUlaunchConfig c = config(pass);
    int clusters = 0;
    if (driver_.OccupancyClusters(&clusters, f, &c) == CUDA_SUCCESS) {
      // Over the whole device: clusters also need neighbours that are free at the same time.
      r.occupancy = static_cast<double>(clusters) * static_cast<double>(launch.cluster_size) * warps /
                    (most * facts_.multiprocessors);
      r.driver.push_back({"clusters_at_once", std::to_string(clusters)});
    }
  }
  const Code& code = codes_.at(launch.code);
  if (const auto bytes = text_bytes(code.bytes, launch.entry_point)) r.code_bytes = *bytes;
  return r;
}

}  // namespace klab::gpu::cuda
