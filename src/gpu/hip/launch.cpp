// SPDX-License-Identifier: Apache-2.0
// Preparing a launch: limits, attributes, arguments.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/units.h"
#include "gpu/hip/device.h"
#include "gpu/parameters.h"

namespace klab::gpu::hip {
namespace {

// What the HIP runtime gives a kernel whose stack the compiler could not bound, for each work-item.
constexpr std::uint32_t kDynamicStack = 16384;
constexpr std::uint64_t kArgumentAlign = 256;

const char* const kDiscarded =
    "what the kernel asks of the host while it runs (printf, malloc) is answered but not done: its output is discarded, "
    "and memory is refused";

}  // namespace

HipDevice::ArgumentBlock::~ArgumentBlock() {
  if (device != nullptr && !device->lost_) device->spare_arguments_[size].push_back(bytes);
}

Result<std::shared_ptr<HipDevice::ArgumentBlock>> HipDevice::argument_block(std::uint64_t size) {
  auto block = std::make_shared<ArgumentBlock>();
  block->size = std::max(kArgumentAlign, (size + kArgumentAlign - 1) / kArgumentAlign * kArgumentAlign);
  auto& spare = spare_arguments_[block->size];
  if (spare.empty()) {
    // Some at once: a pool hands out whole pages.
    const std::uint64_t together = std::max<std::uint64_t>(1, 4096 / block->size);
    KLAB_TRY(void* const memory, pool_allocate(facts_.kernarg_pool, together * block->size, " for arguments"));
    for (std::uint64_t i = 0; i < together; ++i) spare.push_back(static_cast<std::byte*>(memory) + i * block->size);
    argument_pages_.push_back(memory);
  }
  block->bytes = spare.back();
  spare.pop_back();
  block->device = this;
  return block;
}

/// The captured arguments must fit the kernel: a variant with others would read garbage.
Status HipDevice::check_parameters(const bundle::HsacoKernel& k, const LaunchSpec& spec) const {
  std::string difference;
  if (!spec.argument_layout.empty() && !k.arguments.empty())
    difference = layout_difference(explicit_arguments(spec.argument_layout), explicit_arguments(k));
  else if (k.explicit_bytes() > spec.arguments.size())
    difference = fmt::format("it takes {} bytes of them, the capture has {}", k.explicit_bytes(), spec.arguments.size());
  if (difference.empty()) return {};
  return fail(ErrorCode::launch_failed,
              fmt::format("kernel {} has other parameters than the captured one: {}", spec.entry_point, difference),
              "a variant keeps the captured kernel's parameters");
}

Status HipDevice::take_attributes(const LaunchSpec& spec, Launch& launch, Pass& pass) {
  for (const bundle::LaunchAttribute& a : spec.attributes) {
    const auto scope = [&](std::uint32_t& out) {
      // None at all would leave what it wrote to chance: its neighbours here are other kernels.
      if (a.value >= HSA_FENCE_SCOPE_NONE && a.value <= HSA_FENCE_SCOPE_SYSTEM)
        out = std::max<std::uint32_t>(static_cast<std::uint32_t>(a.value), HSA_FENCE_SCOPE_AGENT);
    };
    if (a.name == "cooperative") {
      pass.cooperative = a.value != 0;
    } else if (a.name == "aql.acquire_scope") {
      scope(pass.acquire);
    } else if (a.name == "aql.release_scope") {
      scope(pass.release);
    } else if (a.name == "aql.private_segment_bytes") {
      if (pass.kernel.facts->dynamic_stack && a.value > 0 && a.value < 1 << 24)
        pass.scratch_bytes = std::max(pass.scratch_bytes, static_cast<std::uint32_t>(a.value));
    } else if (a.name != "aql.group_segment_bytes" && a.name != "aql.barrier") {
      launch.notes.push_back(fmt::format("attribute {} = {} is left out: Klab knows no such attribute of HIP launches",
                                         a.name, a.value));
    }
  }
  if (pass.cooperative && !facts_.cooperative_queues)
    return fail(ErrorCode::launch_failed, fmt::format("{} has no cooperative queues", identity().name));
  return {};
}

/// Everything that the device would answer with a bare number or a hang, by name.
Status HipDevice::check_fits(const bundle::HsacoKernel& k, const LaunchSpec& spec, const Pass& pass) const {
  const Abilities& a = abilities();
  if (volume(spec.block) == 0)
    return fail(ErrorCode::launch_failed, "the block size of this launch is not known", "--block X,Y,Z");
  for (std::size_t i = 0; i < 3; ++i)
    if (spec.grid[i] == 0 || std::uint64_t{spec.grid[i]} * spec.block[i] > UINT32_MAX || spec.grid[i] > a.max_grid[i])
      return fail(ErrorCode::launch_failed,
                  fmt::format("a grid of {} blocks of {}: dimension {} can be 1 to {} work-items", show(spec.grid),
                              show(spec.block), i, UINT32_MAX));
  const std::uint64_t threads = volume(spec.block);
  const std::uint32_t most = k.max_block_threads != 0 ? std::min(k.max_block_threads, a.max_block_threads)
                                                      : a.max_block_threads;
  if (threads > most)
    return fail(ErrorCode::launch_failed,
                fmt::format("a block of {} ({} threads): this kernel can have {} (its launch bounds, and the device's limit "
                            "of {})",
                            show(spec.block), threads, most, a.max_block_threads),
                "--block with fewer threads, or build it with __launch_bounds__");
  if (k.required_block[0] != 0 && k.required_block != spec.block)
    return fail(ErrorCode::launch_failed, fmt::format("a block of {}: this kernel is compiled for blocks of {} only",
                                                      show(spec.block), show(k.required_block)));
  const std::uint64_t shared = std::uint64_t{k.shared_bytes} + spec.dynamic_shared_bytes;
  if (a.max_shared_bytes != 0 && shared > a.max_shared_bytes)
    return fail(ErrorCode::launch_failed,
                fmt::format("{} of shared memory a block ({} static, {} dynamic): this device has at most {}",
                            format_bytes(shared), k.shared_bytes, spec.dynamic_shared_bytes,
                            format_bytes(a.max_shared_bytes)),
                "--dynamic-shared BYTES");
  if (pass.cooperative && k.wavefront_size != 0) {
    const std::uint64_t waves = (threads + k.wavefront_size - 1) / k.wavefront_size;
    std::uint64_t blocks = waves == 0 ? 0 : facts_.max_waves_per_unit / waves;
    if (shared != 0) blocks = std::min<std::uint64_t>(blocks, a.max_shared_bytes / shared);
    if (facts_.max_waves_per_unit != 0 && volume(spec.grid) > blocks * a.compute_units)
      return fail(ErrorCode::launch_failed,
                  fmt::format("a cooperative launch of {} blocks: at most {} fit on this device at once", volume(spec.grid),
                              blocks * a.compute_units),
                  "--grid or --block");
  }
  return {};
}

Result<HiddenValues> HipDevice::hidden_values(const bundle::HsacoKernel& k, const LaunchSpec& spec, const Pass& pass,
                                              Launch& launch) {
  HiddenValues v{.threads = pass.threads, .block = pass.block, .dynamic_shared_bytes = spec.dynamic_shared_bytes};
  const auto* queue = reinterpret_cast<const amd_queue_t*>(queue_);
  v.queue = reinterpret_cast<std::uint64_t>(queue_);
  v.shared_base = queue->group_segment_aperture_base_hi;
  v.private_base = queue->private_segment_aperture_base_hi;
  const bool asks = k.hidden("hidden_hostcall_buffer") != nullptr, prints = k.hidden("hidden_printf_buffer") != nullptr;
  if (asks || prints) {
    if (!hostcall_) {
      const std::uint64_t waves = std::uint64_t{abilities().compute_units} * std::max(1u, facts_.max_waves_per_unit);
      KLAB_TRY(void* const memory, pool_allocate(facts_.host_pool, Hostcall::bytes(waves), " for calls of the host"));
      std::memset(memory, 0, Hostcall::bytes(waves));
      KLAB_TRY(const hsa_signal_t doorbell, make_signal(1));
      hostcall_ = std::make_unique<Hostcall>(memory, waves, doorbell);
    }
    v.hostcall = hostcall_->address();
    v.printf_buffer = hostcall_->printf_address();
  }
  if (k.hidden("hidden_heap_v1") != nullptr)
    launch.notes.push_back("the kernel may allocate from the device's heap, which does not exist here: that would be a fault");
  return v;
}

Status HipDevice::prepare_captured(const Code& code, const LaunchSpec& spec, Launch& launch) {
  Pass pass;
  KLAB_TRY(pass.kernel, kernel(*code.module, spec.entry_point));
  const bundle::HsacoKernel& k = *pass.kernel.facts;
  KLAB_TRY_VOID(check_parameters(k, spec));
  pass.block = spec.block;
  for (std::size_t i = 0; i < 3; ++i)
    pass.threads[i] = volume(spec.threads) != 0 ? spec.threads[i] : spec.grid[i] * spec.block[i];
  // The kernel's own and what was asked for: never what another kernel had.
  pass.shared_bytes = k.shared_bytes + spec.dynamic_shared_bytes;
  pass.scratch_bytes = k.dynamic_stack ? std::max(k.scratch_bytes, kDynamicStack) : k.scratch_bytes;
  KLAB_TRY_VOID(take_attributes(spec, launch, pass));
  KLAB_TRY_VOID(check_fits(k, spec, pass));
  if (!spec.textures.empty())
    return fail(ErrorCode::unsupported, "textures of HIP kernels cannot be made again");
  KLAB_TRY(HiddenValues values, hidden_values(k, spec, pass, launch));
  KLAB_TRY(pass.arguments, argument_block(k.kernarg_bytes + 2 * kArgumentAlign));
  if (k.hidden("hidden_multigrid_sync_arg") != nullptr && pass.cooperative) {
    std::byte* const sync = pass.arguments->bytes + (k.kernarg_bytes + kArgumentAlign - 1) / kArgumentAlign * kArgumentAlign;
    values.grid_sync = reinterpret_cast<std::uint64_t>(sync);
    const auto bytes = make_grid_sync(values.grid_sync, values);
    std::memcpy(sync, bytes.data(), bytes.size());
  }
  std::vector<std::string> unknown;
  const auto segment = make_kernarg(k, spec.arguments, values, unknown);
  std::memcpy(pass.arguments->bytes, segment.data(), segment.size());
  for (const std::string& kind : unknown)
    launch.notes.push_back(fmt::format("the hidden argument {} is not known to Klab and is zero", kind));
  if (values.hostcall != 0) launch.notes.push_back(kDiscarded);
  launch.passes.push_back(std::move(pass));
  return {};
}

Result<LaunchId> HipDevice::prepare(const LaunchSpec& spec) {
  KLAB_TRY_VOID(check_alive());
  const auto it = codes_.find(spec.code);
  if (it == codes_.end()) return fail(ErrorCode::internal, fmt::format("no code {}", spec.code));
  Launch launch;
  launch.code = spec.code;
  launch.module = it->second.module;
  launch.entry_point = spec.entry_point;
  launch.dynamic_shared_bytes = spec.dynamic_shared_bytes;
  Status prepared = it->second.builtin.empty() ? prepare_captured(it->second, spec, launch)
                                               : prepare_builtin(it->second, spec, launch);
  if (!prepared) return lost(std::move(prepared.error()));
  launches_[next_id_] = std::move(launch);
  return next_id_++;
}

void HipDevice::discard(LaunchId id) {
  if (!lost_) launches_.erase(id);
}

std::vector<std::string> HipDevice::launch_notes(LaunchId id) const {
  const auto it = launches_.find(id);
  return it == launches_.end() ? std::vector<std::string>() : it->second.notes;
}

}  // namespace klab::gpu::hip
