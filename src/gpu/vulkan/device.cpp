// SPDX-License-Identifier: Apache-2.0
// Opening a device, what it can do, and closing it.
#include "gpu/vulkan/device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include <fmt/format.h>

#include "kernels/kernels.h"

namespace klab::gpu::vulkan {
namespace {

// The largest cache of CPU 0 that sysfs lists, in bytes.
std::uint64_t cpu_last_level_cache() {
  std::uint64_t largest = 0;
  for (int index = 0; index < 8; ++index) {
    std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/size", index));
    std::uint64_t size = 0;
    char unit = 0;
    if (!(file >> size)) continue;
    file >> unit;
    largest = std::max(largest, unit == 'K' ? size << 10 : unit == 'M' ? size << 20 : size);
  }
  return largest;
}

}  // namespace

Result<std::unique_ptr<VulkanDevice>> VulkanDevice::open(std::shared_ptr<Instance> instance, VkPhysicalDevice physical,
                                                         std::unique_ptr<HostRanges> ranges) {
  std::unique_ptr<VulkanDevice> device(new VulkanDevice());
  device->instance_ = std::move(instance);
  device->physical_ = physical;
  device->ranges_ = std::move(ranges);
  device->identity_ = identify(*device->instance_, physical);
  device->features_ = std::make_unique<Features>(*device->instance_, physical);
  KLAB_TRY_VOID(device->create_device());
  device->fill_abilities();
  // A real GPU does not use host addresses, and reserving them would only be in its driver's way.
  if (!(device->is_cpu_ && device->abilities_.fixed_addresses)) device->ranges_->release_held();
  return device;
}

Status VulkanDevice::create_device() {
  const auto& call = instance_->call;
  VkPhysicalDeviceProperties2 properties{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
  call.GetPhysicalDeviceProperties2(physical_, &properties);
  limits_ = properties.properties.limits;
  is_cpu_ = properties.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
  call.GetPhysicalDeviceMemoryProperties(physical_, &memory_);

  // A family with timestamps first; among those the one that does graphics too, since it is the one most programs use.
  std::uint32_t count = 0;
  call.GetPhysicalDeviceQueueFamilyProperties(physical_, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  call.GetPhysicalDeviceQueueFamilyProperties(physical_, &count, families.data());
  int best = -1;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (!(families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) || families[i].queueCount == 0) continue;
    const int score = 1 + (families[i].timestampValidBits != 0 ? 2 : 0) +
                      (families[i].queueFlags & VK_QUEUE_GRAPHICS_BIT ? 1 : 0);
    if (score <= best) continue;
    best = score;
    queue_family_ = i;
    timestamp_bits_ = families[i].timestampValidBits;
  }

  const float priority = 1.0f;
  const VkDeviceQueueCreateInfo queue{.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                      .queueFamilyIndex = queue_family_,
                                      .queueCount = 1,
                                      .pQueuePriorities = &priority};
  const auto extensions = features_->enabled_extensions();
  const VkDeviceCreateInfo info{.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                .pNext = features_->chain(),
                                .queueCreateInfoCount = 1,
                                .pQueueCreateInfos = &queue,
                                .enabledExtensionCount = static_cast<std::uint32_t>(extensions.size()),
                                .ppEnabledExtensionNames = extensions.data()};
  KLAB_VK_TRY(call.CreateDevice(physical_, &info, nullptr, &device_), "vkCreateDevice");

  bool complete = true;
#define KLAB_LOAD_OPTIONAL(name) \
  call_.name = reinterpret_cast<PFN_vk##name>(call.GetDeviceProcAddr(device_, "vk" #name));
#define KLAB_LOAD(name)    \
  KLAB_LOAD_OPTIONAL(name) \
  complete &= call_.name != nullptr;
  KLAB_VK_DEVICE_FUNCTIONS(KLAB_LOAD)
  KLAB_VK_OPTIONAL_DEVICE_FUNCTIONS(KLAB_LOAD_OPTIONAL)
#undef KLAB_LOAD
#undef KLAB_LOAD_OPTIONAL
  if (call_.GetBufferDeviceAddress == nullptr)
    call_.GetBufferDeviceAddress = reinterpret_cast<PFN_vkGetBufferDeviceAddress>(
        call.GetDeviceProcAddr(device_, "vkGetBufferDeviceAddressKHR"));
  if (!complete) return fail(ErrorCode::environment, fmt::format("the driver of {} lacks functions of Vulkan 1.1", identity_.name));

  call_.GetDeviceQueue(device_, queue_family_, 0, &queue_);
  const VkCommandPoolCreateInfo pool{.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                     .flags = VK_COMMAND_POOL_CREATE_TRANSIENT_BIT,
                                     .queueFamilyIndex = queue_family_};
  KLAB_VK_TRY(call_.CreateCommandPool(device_, &pool, nullptr, &pool_), "vkCreateCommandPool");
  return {};
}

void VulkanDevice::fill_abilities() {
  VkPhysicalDeviceProperties2 properties{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
  VkPhysicalDeviceSubgroupProperties subgroup{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES};
  VkPhysicalDeviceMaintenance3Properties maintenance{.sType =
                                                         VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES};
  VkPhysicalDeviceSubgroupSizeControlProperties control{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES};
  VkPhysicalDeviceExternalMemoryHostPropertiesEXT host{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT};
  VkPhysicalDeviceShaderCorePropertiesAMD amd{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_AMD};
  auto add = [&](auto& s) {
    s.pNext = properties.pNext;
    properties.pNext = &s;
  };
  add(subgroup);
  add(maintenance);
  const bool has_control = features_->api_version >= VK_API_VERSION_1_3 ||
                           features_->extension(VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
  const bool has_import = features_->extension(VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME) &&
                          call_.GetMemoryHostPointerPropertiesEXT != nullptr;
  if (has_control) add(control);
  if (has_import) add(host);
  if (features_->extension(VK_AMD_SHADER_CORE_PROPERTIES_EXTENSION_NAME)) add(amd);
  instance_->call.GetPhysicalDeviceProperties2(physical_, &properties);

  Abilities& a = abilities_;
  a.bounded_bindings = true;
  a.device_addresses = features_->v12.bufferDeviceAddress && call_.GetBufferDeviceAddress != nullptr;
  a.subgroup_size = a.min_subgroup_size = a.max_subgroup_size = subgroup.subgroupSize;
  if (has_control) {
    if (control.minSubgroupSize != 0) a.min_subgroup_size = control.minSubgroupSize;
    if (control.maxSubgroupSize != 0) a.max_subgroup_size = control.maxSubgroupSize;
    subgroup_stages_ = control.requiredSubgroupSizeStages;
    a.subgroup_size_control =
        features_->v13.subgroupSizeControl && (subgroup_stages_ & VK_SHADER_STAGE_COMPUTE_BIT) != 0;
  }
  a.max_allocation = maintenance.maxMemoryAllocationSize;
  a.last_level_cache = is_cpu_ ? cpu_last_level_cache() : 0;
  for (int k = 0; k < 3; ++k) a.max_grid[k] = limits_.maxComputeWorkGroupCount[k];
  a.max_block_threads = limits_.maxComputeWorkGroupInvocations;
  a.max_shared_bytes = limits_.maxComputeSharedMemorySize;
  a.timestamps = timestamp_bits_ != 0 && limits_.timestampPeriod > 0;
  a.clock_readout = false;
  a.matrix_units = features_
                       ->get<VkPhysicalDeviceCooperativeMatrixFeaturesNV>(
                           VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_NV)
                       .cooperativeMatrix ||
                   features_->extension("VK_KHR_cooperative_matrix");
  a.executable_statistics = features_
                                ->get<VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR>(
                                    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR)
                                .pipelineExecutableInfo &&
                            call_.GetPipelineExecutablePropertiesKHR != nullptr;
  waves_per_simd_ = amd.wavefrontsPerSimd;

  std::vector<std::string> pools;
  for (std::uint32_t i = 0; i < memory_.memoryTypeCount; ++i) {
    const std::string pool = pool_of(memory_.memoryTypes[i].propertyFlags);
    if (std::find(pools.begin(), pools.end(), pool) == pools.end()) pools.push_back(pool);
  }
  a.memory_pools = pools.size() > 1;

  host_import_alignment_ = std::max<std::uint64_t>(host.minImportedHostPointerAlignment,
                                                   static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)));
  if (is_cpu_ && has_import && a.device_addresses && addresses_are_host_pointers()) {
    a.fixed_addresses = true;
    a.fixed_addresses_by = "imported host memory";
  } else if (a.device_addresses && features_->v12.bufferDeviceAddressCaptureReplay) {
    a.fixed_addresses = true;
    a.fixed_addresses_by = "capture-replay addresses";
  }
}

// No specification promises it, so it is tried: memory of ours, imported, must have its own address.
bool VulkanDevice::addresses_are_host_pointers() {
  const std::uint64_t size = host_import_alignment_ * 2;
  void* at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return false;
  const std::uint64_t address = reinterpret_cast<std::uint64_t>(at);
  const std::uint64_t aligned = (address + host_import_alignment_ - 1) / host_import_alignment_ * host_import_alignment_;
  bool equal = false;
  const VkExternalMemoryBufferCreateInfo external{
      .sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
      .handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT};
  if (auto memory = import_host({aligned, host_import_alignment_})) {
    if (auto made = create_buffer(host_import_alignment_, &external)) {
      if (call_.BindBufferMemory(device_, *made, (*memory)->memory, 0) == VK_SUCCESS)
        equal = device_address(*made) == aligned;
      call_.DestroyBuffer(device_, *made, nullptr);
    }
    (*memory)->cluster = {};  // a probe's range is not kept
  }
  munmap(at, size);
  return equal;
}

VulkanDevice::~VulkanDevice() {
  if (lost_) {
    // Destroying a lost or busy device may wait for it for ever. The process is about to be replaced.
    static auto* const kept = new std::vector<std::pair<std::shared_ptr<Instance>, std::unique_ptr<HostRanges>>>();
    kept->emplace_back(std::move(instance_), std::move(ranges_));
    return;
  }
  if (device_ == VK_NULL_HANDLE) return;
  for (auto& [id, l] : launches_) destroy(l);
  for (auto& [id, c] : codes_) call_.DestroyShaderModule(device_, c.handle, nullptr);
  for (auto& [id, b] : buffers_) call_.DestroyBuffer(device_, b.handle, nullptr);
  buffers_.clear();
  if (queries_ != VK_NULL_HANDLE) call_.DestroyQueryPool(device_, queries_, nullptr);
  if (fence_ != VK_NULL_HANDLE) call_.DestroyFence(device_, fence_, nullptr);
  if (pool_ != VK_NULL_HANDLE) call_.DestroyCommandPool(device_, pool_, nullptr);
  call_.DestroyDevice(device_, nullptr);
}

Status VulkanDevice::check_alive() const {
  if (lost_) return fail(ErrorCode::device_fault, "the device was lost before", "replace the worker");
  return {};
}

std::span<const std::byte> VulkanDevice::builtin_kernel(std::string_view name) const {
  if (name == "hash_address" && !abilities_.device_addresses) return {};
  return kernels::spirv(name);
}

}  // namespace klab::gpu::vulkan
