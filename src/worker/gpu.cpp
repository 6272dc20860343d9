// SPDX-License-Identifier: Apache-2.0
#include "worker/gpu.h"

#include <fmt/format.h>

namespace klab::worker {

namespace {
constexpr std::uint32_t kStorageBuffer =
    7;  // VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, as bundle::LayoutSlot wants it
}

Result<gpu::BatchResult> Gpu::run(std::span<const gpu::Step> steps, std::uint64_t timeout_ns) {
  if (lost_) return fail(ErrorCode::device_fault, "the device was lost before");
  auto result = device_->run(steps, timeout_ns);
  if (result) busy_ns_ += result->wall_ns;
  if (!result &&
      (result.error().code == ErrorCode::device_fault || result.error().code == ErrorCode::timeout))
    lost_ = true;
  return result;
}

Result<gpu::Counters> Gpu::count(gpu::LaunchId launch, std::span<const gpu::Step> before,
                                 std::span<const std::string> names, std::uint64_t timeout_ns) {
  if (lost_) return fail(ErrorCode::device_fault, "the device was lost before");
  auto result = device_->count(launch, before, names, timeout_ns);
  if (!result &&
      (result.error().code == ErrorCode::device_fault || result.error().code == ErrorCode::timeout))
    lost_ = true;
  return result;
}

Result<Memory> Gpu::allocate(std::uint64_t size) {
  const gpu::MemoryRequest request{.size = size};
  KLAB_TRY(const auto placed, device_->place(std::span(&request, 1), false));
  return Memory(this, placed.at(0).id);
}

Result<Launch> Gpu::prepare(const gpu::LaunchSpec& spec) {
  KLAB_TRY(const auto id, device_->prepare(spec));
  return Launch(this, id);
}

Result<Code> Gpu::load(std::span<const std::byte> code) {
  KLAB_TRY(const auto id, device_->load(code));
  return Code(this, id);
}

Result<Launch> Gpu::builtin(std::string_view name, std::span<const BuiltinBinding> bindings,
                            std::span<const std::byte> push, bundle::Dim3 grid, bundle::Dim3 block,
                            std::uint32_t shared_bytes) {
  auto it = builtins_.find(name);
  if (it == builtins_.end()) {
    const auto code = device_->builtin_kernel(name);
    if (code.empty())
      return fail(ErrorCode::unsupported,
                  fmt::format("{} has no \"{}\" kernel of Klab's", device_->identity().api, name));
    KLAB_TRY(const auto id, device_->load(code));
    it = builtins_.emplace(std::string(name), id).first;
  }
  gpu::LaunchSpec spec;
  spec.code = it->second;
  spec.grid = grid;
  spec.block = block;
  spec.dynamic_shared_bytes = shared_bytes;
  for (std::uint32_t i = 0; i < bindings.size(); ++i) {
    spec.layout.push_back({.set = 0, .binding = i, .vulkan_type = kStorageBuffer, .count = 1});
    spec.bindings.push_back({.binding = i,
                             .memory = bindings[i].memory,
                             .offset = bindings[i].offset,
                             .range = bindings[i].range});
  }
  spec.push_ranges.push_back({0, static_cast<std::uint32_t>(push.size())});
  spec.push_constants.assign(push.begin(), push.end());
  return prepare(spec);
}

}  // namespace klab::worker
