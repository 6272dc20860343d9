// SPDX-License-Identifier: Apache-2.0
// Preparing a launch: limits, attributes, parameters.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/units.h"
#include "gpu/cuda/arguments.h"
#include "gpu/cuda/device.h"
#include "gpu/parameters.h"

namespace klab::gpu::cuda {
Result<int> CudaDevice::attribute(CUfunction f, CUfunction_attribute which, const char* name) const {
  int value = 0;
  KLAB_CU_TRY(driver_.FuncGetAttribute(&value, which, f), fmt::format("cuFuncGetAttribute({})", name),
              ErrorCode::launch_failed);
  return value;
}

/// The captured buffer must fit the kernel: a variant with other parameters would read garbage.
Status CudaDevice::check_parameters(CUfunction f, const LaunchSpec& spec) const {
  if (driver_.FuncGetParamInfo == nullptr) return {};
  std::vector<bundle::Argument> own;
  for (std::size_t i = 0; i < 4096; ++i) {
    std::size_t offset = 0, size = 0;
    const CUresult r = driver_.FuncGetParamInfo(f, i, &offset, &size);
    if (r == CUDA_ERROR_INVALID_VALUE) break;  // one past the last
    if (r != CUDA_SUCCESS) return {};          // a code object without that information
    own.push_back({static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(size), {}});
  }
  const std::uint64_t needed = own.empty() ? 0 : std::uint64_t{own.back().offset} + own.back().size;
  std::string difference;
  if (!spec.argument_layout.empty())
    difference = layout_difference(spec.argument_layout, own);
  else if (needed > spec.arguments.size())
    difference = fmt::format("it takes {} bytes of them, the capture has {}", needed, spec.arguments.size());
  if (difference.empty()) return {};
  return fail(
      ErrorCode::launch_failed,
      fmt::format("kernel {} has other parameters than the captured one: {}", spec.entry_point, difference),
      "a variant keeps the captured kernel's parameters");
}

Status CudaDevice::set_function_attributes(CUfunction f, const LaunchSpec& spec, Launch& launch) {
  for (const bundle::LaunchAttribute& a : spec.attributes) {
    const AppliedAttribute applied = apply_attribute(a);
    if (applied.to != AppliedAttribute::To::function) continue;
    const CUresult r = driver_.FuncSetAttribute(f, applied.function, static_cast<int>(a.value));
    if (r == CUDA_SUCCESS) continue;
    if (is_fault(r)) return lose(cu_fail(r, "cuFuncSetAttribute"));
    launch.notes.push_back(
        fmt::format("attribute {} = {} was not taken by the driver: {}", a.name, a.value, result_name(r)));
  }
  // What the program may have set after this kernel was captured is set here when it is needed.
  KLAB_TRY(const int static_bytes, attribute(f, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, "SHARED_SIZE_BYTES"));
  KLAB_TRY(const int most,
           attribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, "MAX_DYNAMIC_SHARED_SIZE_BYTES"));
  const std::uint64_t together = static_cast<std::uint64_t>(static_bytes) + spec.dynamic_shared_bytes;
  if (together > abilities().max_shared_bytes)
    return fail(ErrorCode::launch_failed,
                fmt::format("{} of shared memory a block ({} static, {} dynamic): this device has at most {}",
                            format_bytes(together), static_bytes, spec.dynamic_shared_bytes,
                            format_bytes(abilities().max_shared_bytes)),
                "--dynamic-shared BYTES");
  if (static_cast<std::int64_t>(spec.dynamic_shared_bytes) > most)
    KLAB_CU_TRY(
        driver_.FuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                 static_cast<int>(spec.dynamic_shared_bytes)),
        fmt::format("cuFuncSetAttribute(MAX_DYNAMIC_SHARED_SIZE_BYTES, {})", spec.dynamic_shared_bytes),
        ErrorCode::launch_failed);
  if (volume(spec.cluster) > 8)
    (void)driver_.FuncSetAttribute(f, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
  return {};
}

Status CudaDevice::set_launch_attributes(const LaunchSpec& spec, Launch& launch, Pass& pass) {
  for (const bundle::LaunchAttribute& a : spec.attributes) {
    const AppliedAttribute applied = apply_attribute(a);
    if (applied.to == AppliedAttribute::To::launch)
      pass.attributes.push_back(applied.launch);
    else if (applied.to == AppliedAttribute::To::dropped)
      launch.notes.push_back(fmt::format("attribute {} = {} is left out: {}", a.name, a.value, applied.why));
    else if (applied.to == AppliedAttribute::To::unknown)
      return fail(ErrorCode::launch_failed, fmt::format("no launch attribute is called \"{}\"", a.name),
                  "those that can be given: " + attribute_names());
  }
  launch.cluster_size = volume(spec.cluster);
  if (launch.cluster_size > 0) {
    CUlaunchAttribute cluster{};
    cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    cluster.value.clusterDim = {spec.cluster[0], spec.cluster[1], spec.cluster[2]};
    pass.attributes.push_back(cluster);
  }
  return {};
}

Result<int> CudaDevice::blocks_per_multiprocessor(const Pass& pass) const {
  int blocks = 0;
  KLAB_CU_TRY(driver_.OccupancyBlocks(&blocks, pass.function, static_cast<int>(volume(pass.block)),
                                      pass.shared_bytes),
              "cuOccupancyMaxActiveBlocksPerMultiprocessor", ErrorCode::launch_failed);
  return blocks;
}

/// Everything that the driver would refuse with a bare number, by name.
Status CudaDevice::check_fits(const LaunchSpec& spec, const Launch& launch, const Pass& pass) {
  const Abilities& a = abilities();
  if (volume(spec.block) == 0)
    return fail(ErrorCode::launch_failed, "the block size of this launch is not known", "--block X,Y,Z");
  for (int i = 0; i < 3; ++i) {
    if (spec.grid[i] == 0 || spec.grid[i] > a.max_grid[i])
      return fail(ErrorCode::launch_failed, fmt::format("a grid of {}: dimension {} can be 1 to {}",
                                                        show(spec.grid), i, a.max_grid[i]));
    if (spec.cluster[i] != 0 && spec.grid[i] % spec.cluster[i] != 0)
      return fail(ErrorCode::launch_failed, fmt::format("a grid of {} is not whole clusters of {}",
                                                        show(spec.grid), show(spec.cluster)));
  }
  KLAB_TRY(const int threads,
           attribute(pass.function, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, "MAX_THREADS_PER_BLOCK"));
  KLAB_TRY(const int registers, attribute(pass.function, CU_FUNC_ATTRIBUTE_NUM_REGS, "NUM_REGS"));
  if (volume(spec.block) > static_cast<std::uint64_t>(threads) || spec.block[2] > 64)
    return fail(
        ErrorCode::launch_failed,
        fmt::format(
            "a block of {} ({} threads): this kernel can have {} (its {} registers a thread, its launch "
            "bounds, and the device's limit of {})",
            show(spec.block), volume(spec.block), threads, registers, a.max_block_threads),
        "--block with fewer threads");
  if (launch.cluster_size > 0 && facts_.major < 9)
    return fail(ErrorCode::launch_failed, fmt::format("clusters need compute capability 9.0, {} has {}.{}",
                                                      identity().name, facts_.major, facts_.minor));
  if (launch.cluster_size > 16)
    return fail(ErrorCode::launch_failed,
                fmt::format("a cluster of {} blocks: 16 are possible, 8 portably", launch.cluster_size));
  KLAB_TRY(const int blocks, blocks_per_multiprocessor(pass));
  if (blocks == 0)
    return fail(
        ErrorCode::launch_failed,
        fmt::format("no block fits: {} threads with {} registers each and {} bytes of dynamic shared memory",
                    volume(spec.block), registers, spec.dynamic_shared_bytes));
  const bool cooperative =
      std::any_of(pass.attributes.begin(), pass.attributes.end(), [](const CUlaunchAttribute& x) {
        return x.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && x.value.cooperative != 0;
      });
  const std::uint64_t resident =
      static_cast<std::uint64_t>(blocks) * static_cast<std::uint64_t>(facts_.multiprocessors);
  if (cooperative && volume(spec.grid) > resident)
    return fail(
        ErrorCode::launch_failed,
        fmt::format("a cooperative launch of {} blocks: {} fit on this device at once ({} a multiprocessor)",
                    volume(spec.grid), resident, blocks),
        "--grid or --block");
  return {};
}

Status CudaDevice::prepare_captured(const Code& code, const LaunchSpec& spec, Launch& launch) {
  Pass pass;
  KLAB_TRY(pass.function, function(code, spec.entry_point));
  if (driver_.FuncLoad != nullptr)  // now, and not in the first timed launch
    if (const CUresult r = driver_.FuncLoad(pass.function); r != CUDA_SUCCESS)
      return lose(cu_fail(r, fmt::format("cuFuncLoad({})", spec.entry_point), ErrorCode::launch_failed));
  KLAB_TRY_VOID(check_parameters(pass.function, spec));
  KLAB_TRY_VOID(set_function_attributes(pass.function, spec, launch));
  KLAB_TRY_VOID(set_launch_attributes(spec, launch, pass));
  pass.grid = spec.grid;
  pass.block = spec.block;
  pass.shared_bytes = spec.dynamic_shared_bytes;
  pass.arguments = spec.arguments;
  KLAB_TRY_VOID(check_fits(spec, launch, pass));
  for (const LaunchSpec::Texture& t : spec.textures) {
    if (t.memory == 0) {
      launch.compile_only = true;
      continue;
    }
    KLAB_TRY(auto image, make_image(t));
    if (image->handle != t.object.handle) {
      const std::size_t replaced =
          replace_handle(pass.arguments, spec.argument_layout, t.object.handle, image->handle);
      launch.notes.push_back(replaced != 0
                                 ? fmt::format("{} handle {:#x} became {:#x} in {} place(s) of the arguments",
                                               t.object.surface ? "surface" : "texture", t.object.handle,
                                               image->handle, replaced)
                                 : fmt::format("{} handle {:#x} is not among the arguments and could not be "
                                               "had again: where captured memory "
                                               "holds it, it leads nowhere",
                                               t.object.surface ? "surface" : "texture", t.object.handle));
    }
    launch.images.push_back(std::move(image));
  }
  launch.passes.push_back(std::move(pass));
  return {};
}

Result<LaunchId> CudaDevice::prepare(const LaunchSpec& spec) {
  KLAB_TRY_VOID(check_alive());
  const auto it = codes_.find(spec.code);
  if (it == codes_.end()) return fail(ErrorCode::internal, fmt::format("no code {}", spec.code));
  Launch launch;
  launch.code = spec.code;
  launch.entry_point = spec.entry_point;
  Status prepared = it->second.builtin.empty() ? prepare_captured(it->second, spec, launch)
                                               : prepare_builtin(it->second, spec, launch);
  if (!prepared) return lose(fail(std::move(prepared.error())));
  launches_[next_id_] = std::move(launch);
  return next_id_++;
}

void CudaDevice::discard(LaunchId id) {
  if (!lost_) launches_.erase(id);
}

std::vector<std::string> CudaDevice::launch_notes(LaunchId id) const {
  const auto it = launches_.find(id);
  return it == launches_.end() ? std::vector<std::string>() : it->second.notes;
}

CUlaunchConfig CudaDevice::config(const Pass& p) const {
  CUlaunchConfig c{};
  c.gridDimX = p.grid[0];
  c.gridDimY = p.grid[1];
  c.gridDimZ = p.grid[2];
  c.blockDimX = p.block[0];
  c.blockDimY = p.block[1];
  c.blockDimZ = p.block[2];
  c.sharedMemBytes = p.shared_bytes;
  c.hStream = stream_;
  c.attrs = const_cast<CUlaunchAttribute*>(p.attributes.data());  // read only
  c.numAttrs = static_cast<unsigned>(p.attributes.size());
  return c;
}

Status CudaDevice::submit(const Pass& pass) {
  const CUlaunchConfig c = config(pass);
  std::vector<std::byte> patched;
  const std::byte* arguments = pass.arguments.data();
  if (pass.scratch_at) {
    patched = pass.arguments;
    std::memcpy(patched.data() + *pass.scratch_at, &hash_scratch_, 8);
    arguments = patched.data();
  }
  std::size_t size = pass.arguments.size();
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, const_cast<std::byte*>(arguments),
                   CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
  const CUresult r = driver_.LaunchKernelEx(&c, pass.function, nullptr, size == 0 ? nullptr : extra);
  if (r == CUDA_SUCCESS) return {};
  return cu_fail(
      r,
      fmt::format("cuLaunchKernelEx of grid {}, block {}, {} bytes of dynamic shared memory, {} bytes of "
                  "parameters, {} attribute(s)",
                  show(pass.grid), show(pass.block), pass.shared_bytes, size, pass.attributes.size()),
      ErrorCode::launch_failed);
}

}  // namespace klab::gpu::cuda
