// SPDX-License-Identifier: Apache-2.0
// From SPIR-V and a LaunchSpec to a pipeline with its descriptor sets. Whatever a driver would crash on is refused here.
#include "gpu/vulkan/device.h"

#include <algorithm>
#include <cstring>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spirv/unified1/spirv.hpp>

#include "base/units.h"

namespace klab::gpu::vulkan {
namespace {

constexpr std::uint32_t kMaxSets = 32;
constexpr std::uint32_t kMaxDescriptors = 1u << 20;
// Of the captured pipeline's flags, those that change the code or are needed; the rest belongs to libraries and caches.
constexpr VkPipelineCreateFlags kKeptPipelineFlags =
    VK_PIPELINE_CREATE_DISABLE_OPTIMIZATION_BIT | VK_PIPELINE_CREATE_DISPATCH_BASE_BIT;

bool is_dynamic(std::uint32_t type) {
  return type == VK_DESCRIPTOR_TYPE_STORAGE_BUFFER_DYNAMIC || type == VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER_DYNAMIC;
}
bool is_uniform(bundle::BindingKind kind) {
  return kind == bundle::BindingKind::uniform_buffer || kind == bundle::BindingKind::uniform_buffer_dynamic;
}
VkDescriptorType type_of(bundle::BindingKind kind) {
  switch (kind) {
    case bundle::BindingKind::uniform_buffer: return VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER;
    case bundle::BindingKind::storage_buffer_dynamic: return VK_DESCRIPTOR_TYPE_STORAGE_BUFFER_DYNAMIC;
    case bundle::BindingKind::uniform_buffer_dynamic: return VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER_DYNAMIC;
    case bundle::BindingKind::storage_buffer: break;
  }
  return VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
}

tl::unexpected<Error> refuse(std::string what, std::string hint = {}) {
  return fail(ErrorCode::launch_failed, std::move(what), std::move(hint));
}

}  // namespace

// A driver may crash on a capability whose feature it does not have, as happens when a capture meets another device.
Status VulkanDevice::check_capabilities(const Module& module) const {
  const auto& f = *features_;
  const auto& core = f.core();
  auto atomic = f.get<VkPhysicalDeviceShaderAtomicFloatFeaturesEXT>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_ATOMIC_FLOAT_FEATURES_EXT);
  auto clock = f.get<VkPhysicalDeviceShaderClockFeaturesKHR>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CLOCK_FEATURES_KHR);
  auto matrix = f.get<VkPhysicalDeviceCooperativeMatrixFeaturesNV>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_NV);
  const struct {
    std::uint32_t capability;
    const char* name;
    bool present;
  } rows[] = {
      {spv::CapabilityFloat64, "Float64", core.shaderFloat64 != 0},
      {spv::CapabilityInt64, "Int64", core.shaderInt64 != 0},
      {spv::CapabilityInt16, "Int16", core.shaderInt16 != 0},
      {spv::CapabilityInt8, "Int8", f.v12.shaderInt8 != 0},
      {spv::CapabilityFloat16, "Float16", f.v12.shaderFloat16 != 0},
      {spv::CapabilityStorageBuffer16BitAccess, "StorageBuffer16BitAccess", f.v11.storageBuffer16BitAccess != 0},
      {spv::CapabilityUniformAndStorageBuffer16BitAccess, "UniformAndStorageBuffer16BitAccess",
       f.v11.uniformAndStorageBuffer16BitAccess != 0},
      {spv::CapabilityStoragePushConstant16, "StoragePushConstant16", f.v11.storagePushConstant16 != 0},
      {spv::CapabilityStorageBuffer8BitAccess, "StorageBuffer8BitAccess", f.v12.storageBuffer8BitAccess != 0},
      {spv::CapabilityUniformAndStorageBuffer8BitAccess, "UniformAndStorageBuffer8BitAccess",
       f.v12.uniformAndStorageBuffer8BitAccess != 0},
      {spv::CapabilityStoragePushConstant8, "StoragePushConstant8", f.v12.storagePushConstant8 != 0},
      {spv::CapabilityInt64Atomics, "Int64Atomics",
       f.v12.shaderBufferInt64Atomics != 0 || f.v12.shaderSharedInt64Atomics != 0},
      {spv::CapabilityPhysicalStorageBufferAddresses, "PhysicalStorageBufferAddresses", abilities_.device_addresses},
      {spv::CapabilityVulkanMemoryModel, "VulkanMemoryModel", f.v12.vulkanMemoryModel != 0},
      {spv::CapabilityRuntimeDescriptorArray, "RuntimeDescriptorArray", f.v12.runtimeDescriptorArray != 0},
      {spv::CapabilityShaderClockKHR, "ShaderClockKHR", clock.shaderSubgroupClock || clock.shaderDeviceClock},
      {spv::CapabilityAtomicFloat32AddEXT, "AtomicFloat32AddEXT",
       atomic.shaderBufferFloat32AtomicAdd || atomic.shaderSharedFloat32AtomicAdd},
      {spv::CapabilityAtomicFloat64AddEXT, "AtomicFloat64AddEXT",
       atomic.shaderBufferFloat64AtomicAdd || atomic.shaderSharedFloat64AtomicAdd},
      {spv::CapabilityCooperativeMatrixNV, "CooperativeMatrixNV", matrix.cooperativeMatrix != 0},
      {spv::CapabilityDotProduct, "DotProduct", f.v13.shaderIntegerDotProduct != 0},
  };
  std::vector<const char*> missing;
  for (const std::uint32_t needed : module.capabilities())
    for (const auto& row : rows)
      if (row.capability == needed && !row.present) missing.push_back(row.name);
  if (!missing.empty())
    return fail(ErrorCode::unsupported,
                fmt::format("the shader needs {}, which {} does not have", fmt::join(missing, ", "), identity_.name),
                "replay it on a device that has it");
  return {};
}

Result<CodeId> VulkanDevice::load(std::span<const std::byte> code) {
  KLAB_TRY_VOID(check_alive());
  KLAB_TRY(auto module, Module::read(code, features_->api_version));
  KLAB_TRY_VOID(check_capabilities(module));
  const VkShaderModuleCreateInfo info{.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                      .codeSize = module.words().size_bytes(),
                                      .pCode = module.words().data()};
  VkShaderModule handle = VK_NULL_HANDLE;
  KLAB_VK_TRY(call_.CreateShaderModule(device_, &info, nullptr, &handle), "vkCreateShaderModule");
  const CodeId id = next_id_++;
  codes_.emplace(id, Code{std::move(module), handle});
  return id;
}

void VulkanDevice::unload(CodeId code) {
  const auto found = codes_.find(code);
  if (found == codes_.end() || lost_) return;
  call_.DestroyShaderModule(device_, found->second.handle, nullptr);
  codes_.erase(found);
}

Status VulkanDevice::check_launch(const LaunchSpec& spec, const Module& module, const EntryInterface& entry) {
  for (int k = 0; k < 3; ++k) {
    const std::uint64_t end = std::uint64_t{spec.base[k]} + spec.grid[k];
    if (end > abilities_.max_grid[k])
      return refuse(fmt::format("the grid reaches {} workgroups in {}, the device's limit is {}", end, "xyz"[k],
                                abilities_.max_grid[k]));
  }
  if (spec.dynamic_shared_bytes != 0)
    return refuse(fmt::format("{} bytes of dynamic shared memory: Vulkan has none", spec.dynamic_shared_bytes),
                  "use a specialization constant for the array's length");
  if (entry.block) {
    std::uint64_t threads = 1;
    for (int k = 0; k < 3; ++k) {
      const std::uint32_t n = (*entry.block)[k];
      if (n == 0) return refuse(fmt::format("the workgroup size in {} is 0", "xyz"[k]));
      if (n > limits_.maxComputeWorkGroupSize[k])
        return refuse(fmt::format("the workgroup size in {} is {}, the device's limit is {}", "xyz"[k], n,
                                  limits_.maxComputeWorkGroupSize[k]));
      threads *= n;
    }
    if (threads > abilities_.max_block_threads)
      return refuse(fmt::format("{} threads in a workgroup, the device's limit is {}", threads,
                                abilities_.max_block_threads));
  }
  if (entry.shared_bytes.value_or(0) > abilities_.max_shared_bytes)
    return refuse(fmt::format("{} bytes of shared memory, the device's limit is {}", *entry.shared_bytes,
                              abilities_.max_shared_bytes));
  if (const std::uint32_t n = spec.required_subgroup_size; n != 0) {
    const bool only_size = abilities_.min_subgroup_size == abilities_.max_subgroup_size && n == abilities_.subgroup_size;
    if (!abilities_.subgroup_size_control && !only_size)
      return refuse(fmt::format("subgroup size {}: this device cannot be told one", n));
    if ((n & (n - 1)) != 0 || n < abilities_.min_subgroup_size || n > abilities_.max_subgroup_size)
      return refuse(fmt::format("subgroup size {}, the device has powers of two from {} to {}", n,
                                abilities_.min_subgroup_size, abilities_.max_subgroup_size));
  }
  std::set<std::uint32_t> ids;
  for (const auto& c : spec.spec_constants) {
    if (!ids.insert(c.id).second) return refuse(fmt::format("specialization constant {} is given twice", c.id));
    if (const auto size = module.spec_constant_size(c.id); size && *size != c.value.size())
      return refuse(fmt::format("specialization constant {} has {} bytes, {} were given", c.id, *size, c.value.size()));
  }
  std::uint64_t push_end = 0;
  for (const auto& r : spec.push_ranges) {
    if (r.offset % 4 != 0 || r.size % 4 != 0 || r.size == 0 ||
        std::uint64_t{r.offset} + r.size > limits_.maxPushConstantsSize)
      return refuse(fmt::format("push constants {} to {}, the device's limit is {} bytes", r.offset,
                                std::uint64_t{r.offset} + r.size, limits_.maxPushConstantsSize));
    push_end = std::max<std::uint64_t>(push_end, std::uint64_t{r.offset} + r.size);
  }
  if (entry.push_bytes > push_end || (push_end != 0 && spec.push_constants.size() < push_end))
    return refuse(fmt::format("the shader has {} bytes of push constants, the layout {} and the launch {}",
                              entry.push_bytes, push_end, spec.push_constants.size()));
  return {};
}

Status VulkanDevice::check_bindings(const LaunchSpec& spec, const EntryInterface& entry) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, const bundle::LayoutSlot*> slots;
  std::uint64_t descriptors = 0;
  for (const auto& slot : spec.layout) {
    if (slot.set >= std::min(kMaxSets, limits_.maxBoundDescriptorSets))
      return refuse(fmt::format("descriptor set {}, the device has {}", slot.set, limits_.maxBoundDescriptorSets));
    if (slot.vulkan_type > VK_DESCRIPTOR_TYPE_INPUT_ATTACHMENT)
      return refuse(fmt::format("descriptor type {} at set {} binding {} is not supported", slot.vulkan_type, slot.set,
                                slot.binding));
    descriptors += slot.count;
    if (slot.count > kMaxDescriptors || descriptors > kMaxDescriptors)
      return refuse(fmt::format("more than {} descriptors", kMaxDescriptors));
    if (!slots.emplace(std::pair(slot.set, slot.binding), &slot).second)
      return refuse(fmt::format("set {} binding {} is twice in the layout", slot.set, slot.binding));
  }
  std::set<std::pair<std::uint32_t, std::uint32_t>> bound;
  for (const auto& b : spec.bindings) {
    const auto slot = slots.find({b.set, b.binding});
    const std::string at = fmt::format("set {} binding {}[{}]", b.set, b.binding, b.element);
    if (slot == slots.end()) return refuse(at + " is not in the layout");
    if (b.element >= slot->second->count)
      return refuse(fmt::format("{}: the layout has {} elements", at, slot->second->count));
    if (slot->second->vulkan_type != static_cast<std::uint32_t>(type_of(b.kind)))
      return refuse(fmt::format("{} is {}, the layout has descriptor type {}", at, bundle::to_string(b.kind),
                                slot->second->vulkan_type));
    if (b.range == 0) return refuse(at + " has no bytes");
    bound.emplace(b.set, b.binding);
    if (b.memory == 0) continue;  // compile only
    const auto memory = buffers_.find(b.memory);
    if (memory == buffers_.end()) return refuse(fmt::format("{}: no memory {}", at, b.memory));
    if (b.offset > memory->second.capacity || b.range > memory->second.capacity - b.offset)
      return refuse(fmt::format("{}: bytes {} to {} of memory that has {}", at, b.offset, b.offset + b.range,
                                memory->second.size));
    const std::uint64_t limit = is_uniform(b.kind) ? limits_.maxUniformBufferRange : limits_.maxStorageBufferRange;
    if (b.range > limit)
      return refuse(fmt::format("{}: {} are bound, the device's limit is {}", at, format_bytes(b.range), format_bytes(limit)));
    const std::uint64_t alignment = std::max<std::uint64_t>(
        1, is_uniform(b.kind) ? limits_.minUniformBufferOffsetAlignment : limits_.minStorageBufferOffsetAlignment);
    if ((memory->second.base + b.offset) % alignment != 0)
      return refuse(fmt::format("{}: offset {} is not a multiple of {}, as this device asks", at, b.offset, alignment));
  }
  for (const Use& use : entry.uses) {
    const auto slot = slots.find({use.set, use.binding});
    if (slot == slots.end())
      return refuse(fmt::format("the shader uses set {} binding {}, which the captured layout does not have", use.set,
                                use.binding),
                    "keep to the bindings of the original");
    if (slot->second->count != 0 && !bound.contains({use.set, use.binding}))
      return refuse(fmt::format("the shader uses set {} binding {}, but nothing is bound there", use.set, use.binding));
  }
  return {};
}

Status VulkanDevice::make_sets(const LaunchSpec& spec, Launch& launch) {
  std::uint32_t set_count = 0;
  for (const auto& slot : spec.layout) set_count = std::max(set_count, slot.set + 1);
  std::map<std::uint32_t, std::uint32_t> pool_counts;
  for (std::uint32_t set = 0; set < set_count; ++set) {
    std::vector<VkDescriptorSetLayoutBinding> bindings;
    for (const auto& slot : spec.layout) {
      if (slot.set != set) continue;
      const auto type = static_cast<VkDescriptorType>(slot.vulkan_type);
      bindings.push_back({.binding = slot.binding,
                          .descriptorType = type,
                          .descriptorCount = slot.count,
                          .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT});
      pool_counts[slot.vulkan_type] += slot.count;
      if (is_dynamic(slot.vulkan_type)) launch.dynamic_offsets.resize(launch.dynamic_offsets.size() + slot.count);
    }
    std::vector<VkDescriptorBindingFlags> flags;
    for (const auto& b : bindings)
      flags.push_back(features_->v12.descriptorBindingPartiallyBound && b.descriptorCount > 1
                          ? VK_DESCRIPTOR_BINDING_PARTIALLY_BOUND_BIT
                          : 0);
    const VkDescriptorSetLayoutBindingFlagsCreateInfo partially{
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_BINDING_FLAGS_CREATE_INFO,
        .bindingCount = static_cast<std::uint32_t>(flags.size()),
        .pBindingFlags = flags.data()};
    const VkDescriptorSetLayoutCreateInfo info{
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
        .pNext = features_->v12.descriptorBindingPartiallyBound ? &partially : nullptr,
        .bindingCount = static_cast<std::uint32_t>(bindings.size()),
        .pBindings = bindings.data()};
    KLAB_VK_TRY(call_.CreateDescriptorSetLayout(device_, &info, nullptr, &launch.set_layouts.emplace_back()),
                "vkCreateDescriptorSetLayout");
  }
  if (set_count == 0 || launch.compile_only) return {};

  std::vector<VkDescriptorPoolSize> sizes;
  for (const auto& [type, count] : pool_counts)
    if (count != 0) sizes.push_back({static_cast<VkDescriptorType>(type), count});
  if (sizes.empty()) sizes.push_back({VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1});
  const VkDescriptorPoolCreateInfo pool{.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                        .maxSets = set_count,
                                        .poolSizeCount = static_cast<std::uint32_t>(sizes.size()),
                                        .pPoolSizes = sizes.data()};
  KLAB_VK_TRY(call_.CreateDescriptorPool(device_, &pool, nullptr, &launch.pool), "vkCreateDescriptorPool");
  launch.sets.resize(set_count);
  const VkDescriptorSetAllocateInfo allocate{.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                             .descriptorPool = launch.pool,
                                             .descriptorSetCount = set_count,
                                             .pSetLayouts = launch.set_layouts.data()};
  KLAB_VK_TRY(call_.AllocateDescriptorSets(device_, &allocate, launch.sets.data()), "vkAllocateDescriptorSets");

  std::vector<VkDescriptorBufferInfo> infos;
  infos.reserve(spec.bindings.size());
  std::vector<VkWriteDescriptorSet> writes;
  for (const auto& b : spec.bindings) {
    const Buffer& memory = buffers_.at(b.memory);
    const bool storage = b.kind == bundle::BindingKind::storage_buffer || b.kind == bundle::BindingKind::storage_buffer_dynamic;
    const std::uint64_t wide = memory.capacity - b.offset + memory.extra;
    const bool widened = spec.widen && storage && wide > b.range && wide <= limits_.maxStorageBufferRange;
    infos.push_back({memory.handle, memory.base + b.offset, widened ? wide : b.range});
    writes.push_back({.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                      .dstSet = launch.sets[b.set],
                      .dstBinding = b.binding,
                      .dstArrayElement = b.element,
                      .descriptorCount = 1,
                      .descriptorType = type_of(b.kind),
                      .pBufferInfo = &infos.back()});
  }
  if (!writes.empty())
    call_.UpdateDescriptorSets(device_, static_cast<std::uint32_t>(writes.size()), writes.data(), 0, nullptr);
  return {};
}

Result<VkPipeline> VulkanDevice::make_pipeline(const Launch& launch, VkPipelineCreateFlags extra_flags) {
  std::vector<VkSpecializationMapEntry> entries;
  std::vector<std::byte> data;
  for (const auto& c : launch.spec_constants) {
    while (data.size() % 8 != 0) data.push_back({});
    entries.push_back({c.id, static_cast<std::uint32_t>(data.size()), c.value.size()});
    data.insert(data.end(), c.value.begin(), c.value.end());
  }
  const VkSpecializationInfo specialization{.mapEntryCount = static_cast<std::uint32_t>(entries.size()),
                                            .pMapEntries = entries.data(),
                                            .dataSize = data.size(),
                                            .pData = data.data()};
  const VkPipelineShaderStageRequiredSubgroupSizeCreateInfo subgroup{
      .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
      .requiredSubgroupSize = launch.required_subgroup_size};
  const bool sized = launch.required_subgroup_size != 0 && abilities_.subgroup_size_control;
  VkPipelineShaderStageCreateFlags stage_flags = launch.stage_flags;
  if (!features_->v13.computeFullSubgroups) stage_flags &= ~VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
  if (!features_->v13.subgroupSizeControl || sized)
    stage_flags &= ~VK_PIPELINE_SHADER_STAGE_CREATE_ALLOW_VARYING_SUBGROUP_SIZE_BIT;
  const VkComputePipelineCreateInfo info{
      .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
      .flags = launch.pipeline_flags | extra_flags,
      .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                .pNext = sized ? &subgroup : nullptr,
                .flags = stage_flags,
                .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                .module = codes_.at(launch.code).handle,
                .pName = launch.entry_point.c_str(),
                .pSpecializationInfo = entries.empty() ? nullptr : &specialization},
      .layout = launch.layout};
  VkPipeline pipeline = VK_NULL_HANDLE;
  const VkResult made = call_.CreateComputePipelines(device_, VK_NULL_HANDLE, 1, &info, nullptr, &pipeline);
  if (made != VK_SUCCESS) return vk_fail(made, "vkCreateComputePipelines", ErrorCode::compile_failed);
  return pipeline;
}

Result<LaunchId> VulkanDevice::prepare(const LaunchSpec& spec) {
  KLAB_TRY_VOID(check_alive());
  const auto code = codes_.find(spec.code);
  if (code == codes_.end()) return fail(ErrorCode::internal, fmt::format("no code {}", spec.code));
  KLAB_TRY(const EntryInterface entry, code->second.module.entry(spec.entry_point, spec.spec_constants));
  KLAB_TRY_VOID(check_launch(spec, code->second.module, entry));
  KLAB_TRY_VOID(check_bindings(spec, entry));
  if (spec.widen && code->second.module.asks_length())
    return fail(ErrorCode::unsupported, "the kernel asks for the length of a buffer: a wider one would be another");

  Launch launch;
  launch.code = spec.code;
  launch.push_ranges = spec.push_ranges;
  launch.push_constants = spec.push_constants;
  launch.grid = spec.grid;
  launch.base = spec.base;
  launch.entry_point = spec.entry_point;
  launch.spec_constants = spec.spec_constants;
  launch.required_subgroup_size = spec.required_subgroup_size;
  launch.stage_flags = spec.stage_flags & (VK_PIPELINE_SHADER_STAGE_CREATE_ALLOW_VARYING_SUBGROUP_SIZE_BIT |
                                           VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT);
  launch.pipeline_flags = spec.pipeline_flags & kKeptPipelineFlags;
  if (spec.base != bundle::Dim3{0, 0, 0}) launch.pipeline_flags |= VK_PIPELINE_CREATE_DISPATCH_BASE_BIT;
  launch.shared_bytes = entry.shared_bytes;
  launch.compile_only =
      std::any_of(spec.bindings.begin(), spec.bindings.end(), [](const auto& b) { return b.memory == 0; });

  auto build = [&]() -> Status {
    KLAB_TRY_VOID(make_sets(spec, launch));
    std::uint32_t push_end = 0, push_begin = ~0u;
    for (const auto& r : spec.push_ranges) {
      push_begin = std::min(push_begin, r.offset);
      push_end = std::max(push_end, r.offset + r.size);
    }
    // One stage may be in one range only.
    const VkPushConstantRange range{VK_SHADER_STAGE_COMPUTE_BIT, push_begin, push_end - push_begin};
    if (push_end != 0) launch.push_ranges = {{push_begin, push_end - push_begin}};
    const VkPipelineLayoutCreateInfo layout{.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                            .setLayoutCount = static_cast<std::uint32_t>(launch.set_layouts.size()),
                                            .pSetLayouts = launch.set_layouts.data(),
                                            .pushConstantRangeCount = push_end != 0 ? 1u : 0u,
                                            .pPushConstantRanges = &range};
    KLAB_VK_TRY(call_.CreatePipelineLayout(device_, &layout, nullptr, &launch.layout), "vkCreatePipelineLayout");
    KLAB_TRY(launch.pipeline, make_pipeline(launch, 0));
    return {};
  };
  if (Status built = build(); !built) {
    if (built.error().code == ErrorCode::device_fault)
      lost_ = true;
    else
      destroy(launch);
    return fail(std::move(built.error()));
  }
  const LaunchId id = next_id_++;
  launches_.emplace(id, std::move(launch));
  return id;
}

void VulkanDevice::destroy(Launch& launch) {
  if (launch.pipeline != VK_NULL_HANDLE) call_.DestroyPipeline(device_, launch.pipeline, nullptr);
  if (launch.layout != VK_NULL_HANDLE) call_.DestroyPipelineLayout(device_, launch.layout, nullptr);
  if (launch.pool != VK_NULL_HANDLE) call_.DestroyDescriptorPool(device_, launch.pool, nullptr);
  for (VkDescriptorSetLayout layout : launch.set_layouts)
    if (layout != VK_NULL_HANDLE) call_.DestroyDescriptorSetLayout(device_, layout, nullptr);
}

void VulkanDevice::discard(LaunchId launch) {
  const auto found = launches_.find(launch);
  if (found == launches_.end() || lost_) return;
  destroy(found->second);
  launches_.erase(found);
}

}  // namespace klab::gpu::vulkan
