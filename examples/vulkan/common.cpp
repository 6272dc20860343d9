// SPDX-License-Identifier: Apache-2.0
#include "common.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace example {
namespace {

std::string own_path() {
  char path[4096];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  return n > 0 ? std::string(path, static_cast<std::size_t>(n)) : std::string();
}

[[noreturn]] void die(const std::string& why) {
  std::fprintf(stderr, "%s: %s\n", program_name().c_str(), why.c_str());
  std::exit(1);
}

bool has_extension(VkPhysicalDevice device, const char* name) {
  std::uint32_t n = 0;
  vkEnumerateDeviceExtensionProperties(device, nullptr, &n, nullptr);
  std::vector<VkExtensionProperties> all(n);
  vkEnumerateDeviceExtensionProperties(device, nullptr, &n, all.data());
  return std::any_of(all.begin(), all.end(),
                     [&](const auto& e) { return std::strcmp(e.extensionName, name) == 0; });
}

}  // namespace

const std::string& program_name() {
  static const std::string name = own_path().substr(own_path().rfind('/') + 1);
  return name;
}

bool Options::has(const std::string& word) const {
  return std::find(words.begin(), words.end(), word) != words.end();
}

Options parse(int argc, char** argv, std::uint32_t size, std::uint32_t iterations,
              std::initializer_list<const char*> words) {
  Options o{size, iterations, {}};
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if ((arg == "--size" || arg == "--iterations") && i + 1 < argc) {
      char* rest = nullptr;
      const unsigned long value = std::strtoul(argv[++i], &rest, 10);
      if (*rest || value == 0 || value > (1ul << 30)) die(arg + " takes a number from 1 to 2^30");
      (arg == "--size" ? o.size : o.iterations) = static_cast<std::uint32_t>(value);
    } else if (std::find(words.begin(), words.end(), arg) != words.end()) {
      o.words.push_back(arg);
    } else {
      std::string usage = "usage: " + program_name() + " [--size N] [--iterations N]";
      for (const char* word : words) usage += std::string(" [") + word + "]";
      std::fprintf(stderr, "%s\n", usage.c_str());
      std::exit(2);
    }
  }
  return o;
}

void skip(const std::string& why) {
  std::printf("%s: skipped, %s\n", program_name().c_str(), why.c_str());
  std::exit(kSkipped);
}

void check(VkResult result, const char* what) {
  if (result < 0) die(std::string(what) + " returned VkResult " + std::to_string(result));
}

std::vector<Binding> storage(std::uint32_t count) { return std::vector<Binding>(count); }

Gpu::Gpu(const Needs& needs) {
  const VkApplicationInfo app{.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                              .pApplicationName = program_name().c_str(),
                              .apiVersion = VK_API_VERSION_1_2};
  std::uint32_t n = 0;
  vkEnumerateInstanceExtensionProperties(nullptr, &n, nullptr);
  std::vector<VkExtensionProperties> extensions(n);
  vkEnumerateInstanceExtensionProperties(nullptr, &n, extensions.data());
  debug_utils_ = std::any_of(extensions.begin(), extensions.end(), [](const auto& e) {
    return std::strcmp(e.extensionName, VK_EXT_DEBUG_UTILS_EXTENSION_NAME) == 0;
  });
  const char* debug_utils = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
  const VkInstanceCreateInfo instance_info{.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                           .pApplicationInfo = &app,
                                           .enabledExtensionCount = debug_utils_ ? 1u : 0u,
                                           .ppEnabledExtensionNames = &debug_utils};
  VK(vkCreateInstance(&instance_info, nullptr, &instance_));
  n = 0;
  VK(vkEnumeratePhysicalDevices(instance_, &n, nullptr));
  std::vector<VkPhysicalDevice> all(n);
  VK(vkEnumeratePhysicalDevices(instance_, &n, all.data()));
  for (VkPhysicalDevice p : all) {  // the first with 1.2, as most programs do
    vkGetPhysicalDeviceProperties(p, &properties_);
    if (properties_.apiVersion >= VK_API_VERSION_1_2 && !physical_) physical_ = p;
  }
  if (!physical_) die("no Vulkan 1.2 device; try installing mesa-vulkan-drivers");
  vkGetPhysicalDeviceProperties(physical_, &properties_);
  vkGetPhysicalDeviceMemoryProperties(physical_, &memory_);

  n = 0;
  vkGetPhysicalDeviceQueueFamilyProperties(physical_, &n, nullptr);
  std::vector<VkQueueFamilyProperties> families(n);
  vkGetPhysicalDeviceQueueFamilyProperties(physical_, &n, families.data());
  for (family_ = 0; family_ < n && !(families[family_].queueFlags & VK_QUEUE_COMPUTE_BIT);) ++family_;
  if (family_ == n) skip("no compute queue");
  const float priorities[2] = {1, 1};
  const VkDeviceQueueCreateInfo queue_info{.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                           .queueFamilyIndex = family_,
                                           .queueCount = std::min(families[family_].queueCount, 2u),
                                           .pQueuePriorities = priorities};

  // Ask what is there, then enable exactly what is needed.
  VkPhysicalDeviceShaderAtomicFloatFeaturesEXT atomics{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_ATOMIC_FLOAT_FEATURES_EXT};
  const bool atomics_there = has_extension(physical_, VK_EXT_SHADER_ATOMIC_FLOAT_EXTENSION_NAME);
  VkPhysicalDeviceVulkan12Features f12{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                                       .pNext = atomics_there ? &atomics : nullptr};
  VkPhysicalDeviceVulkan11Features f11{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
                                       .pNext = &f12};
  VkPhysicalDeviceFeatures2 f2{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &f11};
  vkGetPhysicalDeviceFeatures2(physical_, &f2);
  std::vector<const char*> wanted;
  const auto require = [](bool needed, bool there, const char* what) {
    if (needed && !there) skip(std::string("the device has no ") + what);
    return VkBool32(needed);
  };
  const VkPhysicalDeviceVulkan12Features has12 = f12;
  const VkPhysicalDeviceVulkan11Features has11 = f11;
  f12 = {.sType = f12.sType};
  f11 = {.sType = f11.sType, .pNext = &f12};
  f2 = {.sType = f2.sType, .pNext = &f11};
  f12.bufferDeviceAddress = require(needs.device_address, has12.bufferDeviceAddress, "bufferDeviceAddress");
  f12.storageBuffer8BitAccess =
      require(needs.storage8, has12.storageBuffer8BitAccess, "storageBuffer8BitAccess");
  f12.timelineSemaphore = require(needs.timeline, has12.timelineSemaphore, "timelineSemaphore");
  f11.storageBuffer16BitAccess =
      require(needs.storage16, has11.storageBuffer16BitAccess, "storageBuffer16BitAccess");
  if (require(needs.push_descriptor, has_extension(physical_, VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME),
              VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME))
    wanted.push_back(VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME);
  if (require(needs.float_atomic_add, atomics.shaderBufferFloat32AtomicAdd, "shaderBufferFloat32AtomicAdd")) {
    wanted.push_back(VK_EXT_SHADER_ATOMIC_FLOAT_EXTENSION_NAME);
    atomics = {.sType = atomics.sType};
    atomics.shaderBufferFloat32Atomics = atomics.shaderBufferFloat32AtomicAdd = VK_TRUE;
    f12.pNext = &atomics;
  }
  addresses_ = needs.device_address;
  const VkDeviceCreateInfo device_info{.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                       .pNext = &f2,
                                       .queueCreateInfoCount = 1,
                                       .pQueueCreateInfos = &queue_info,
                                       .enabledExtensionCount = static_cast<std::uint32_t>(wanted.size()),
                                       .ppEnabledExtensionNames = wanted.data()};
  VK(vkCreateDevice(physical_, &device_info, nullptr, &device_));
  queues_.resize(queue_info.queueCount);
  for (std::uint32_t i = 0; i < queue_info.queueCount; ++i)
    vkGetDeviceQueue(device_, family_, i, &queues_[i]);
  const VkCommandPoolCreateInfo pool_info{.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                          .queueFamilyIndex = family_};
  VK(vkCreateCommandPool(device_, &pool_info, nullptr, &pool_));
}

Gpu::~Gpu() {
  vkDeviceWaitIdle(device_);
  for (const Pipeline& p : pipelines_) {
    vkDestroyPipeline(device_, p.handle, nullptr);
    vkDestroyPipelineLayout(device_, p.layout, nullptr);
    vkDestroyDescriptorSetLayout(device_, p.set_layout, nullptr);
  }
  for (VkDescriptorPool p : descriptor_pools_) vkDestroyDescriptorPool(device_, p, nullptr);
  for (const Buffer& b : buffers_) {
    vkDestroyBuffer(device_, b.handle, nullptr);
    vkFreeMemory(device_, b.memory, nullptr);
  }
  vkDestroyCommandPool(device_, pool_, nullptr);
  vkDestroyDevice(device_, nullptr);
  vkDestroyInstance(instance_, nullptr);
}

std::uint32_t Gpu::memory_type(std::uint32_t allowed) const {
  const VkMemoryPropertyFlags mapped =
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  for (const VkMemoryPropertyFlags want : {mapped | VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, mapped})
    for (std::uint32_t i = 0; i < memory_.memoryTypeCount; ++i)
      if ((allowed >> i & 1) && (memory_.memoryTypes[i].propertyFlags & want) == want) return i;
  die("no mapped, coherent memory type");
}

void Gpu::name_object(VkObjectType type, std::uint64_t handle, const std::string& name) {
  const auto set_name = reinterpret_cast<PFN_vkSetDebugUtilsObjectNameEXT>(
      debug_utils_ ? vkGetInstanceProcAddr(instance_, "vkSetDebugUtilsObjectNameEXT") : nullptr);
  if (!set_name) return;
  const VkDebugUtilsObjectNameInfoEXT info{.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT,
                                           .objectType = type,
                                           .objectHandle = handle,
                                           .pObjectName = name.c_str()};
  VK(set_name(device_, &info));
}

void Gpu::label(VkCommandBuffer commands, const char* text) {
  if (!debug_utils_) return;
  const auto get = [&](const char* name) { return vkGetInstanceProcAddr(instance_, name); };
  const VkDebugUtilsLabelEXT info{.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_LABEL_EXT, .pLabelName = text};
  if (text)
    reinterpret_cast<PFN_vkCmdBeginDebugUtilsLabelEXT>(get("vkCmdBeginDebugUtilsLabelEXT"))(commands, &info);
  else
    reinterpret_cast<PFN_vkCmdEndDebugUtilsLabelEXT>(get("vkCmdEndDebugUtilsLabelEXT"))(commands);
}

Buffer Gpu::buffer(VkDeviceSize bytes, VkBufferUsageFlags extra_usage, const char* name) {
  Buffer b{.size = bytes};
  const VkBufferCreateInfo info{
      .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
      .size = bytes,
      .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | extra_usage |
               VkBufferUsageFlags(addresses_ ? VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT : 0)};
  VK(vkCreateBuffer(device_, &info, nullptr, &b.handle));
  VkMemoryRequirements needs;
  vkGetBufferMemoryRequirements(device_, b.handle, &needs);
  const VkMemoryAllocateFlagsInfo flags{.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                        .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
  const VkMemoryAllocateInfo allocate{.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                      .pNext = addresses_ ? &flags : nullptr,
                                      .allocationSize = needs.size,
                                      .memoryTypeIndex = memory_type(needs.memoryTypeBits)};
  VK(vkAllocateMemory(device_, &allocate, nullptr, &b.memory));
  VK(vkBindBufferMemory(device_, b.handle, b.memory, 0));
  VK(vkMapMemory(device_, b.memory, 0, VK_WHOLE_SIZE, 0, &b.data));
  std::memset(b.data, 0, bytes);
  if (addresses_) {
    const VkBufferDeviceAddressInfo which{.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
                                          .buffer = b.handle};
    b.address = vkGetBufferDeviceAddress(device_, &which);
  }
  if (name) name_object(VK_OBJECT_TYPE_BUFFER, reinterpret_cast<std::uint64_t>(b.handle), name);
  buffers_.push_back(b);
  return b;
}

VkShaderModule Gpu::module(const std::string& shader) {
  const std::string path = own_path().substr(0, own_path().rfind('/') + 1) + shader + ".spv";
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) die("cannot read " + path);
  std::vector<std::uint32_t> words(static_cast<std::size_t>(in.tellg()) / 4);
  in.seekg(0).read(reinterpret_cast<char*>(words.data()), static_cast<std::streamsize>(words.size() * 4));
  const VkShaderModuleCreateInfo info{.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                      .codeSize = words.size() * 4,
                                      .pCode = words.data()};
  VkShaderModule module;
  VK(vkCreateShaderModule(device_, &info, nullptr, &module));
  return module;
}

Pipeline Gpu::pipeline(const PipelineInfo& info) {
  Pipeline p{.bindings = info.bindings};
  std::vector<VkDescriptorSetLayoutBinding> slots;
  for (std::uint32_t i = 0; i < info.bindings.size(); ++i)
    slots.push_back({i, info.bindings[i].type, info.bindings[i].count, VK_SHADER_STAGE_COMPUTE_BIT, nullptr});
  const VkDescriptorSetLayoutCreateInfo set_info{.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
                                                 .flags = info.layout_flags,
                                                 .bindingCount = static_cast<std::uint32_t>(slots.size()),
                                                 .pBindings = slots.data()};
  VK(vkCreateDescriptorSetLayout(device_, &set_info, nullptr, &p.set_layout));
  const VkPushConstantRange push{VK_SHADER_STAGE_COMPUTE_BIT, 0, info.push_bytes};
  const VkPipelineLayoutCreateInfo layout_info{.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                               .setLayoutCount = 1,
                                               .pSetLayouts = &p.set_layout,
                                               .pushConstantRangeCount = info.push_bytes ? 1u : 0u,
                                               .pPushConstantRanges = &push};
  VK(vkCreatePipelineLayout(device_, &layout_info, nullptr, &p.layout));
  std::vector<VkSpecializationMapEntry> entries;
  std::vector<std::uint32_t> values;
  for (const auto& [id, value] : info.spec_constants) {
    entries.push_back({id, static_cast<std::uint32_t>(values.size() * 4), 4});
    values.push_back(value);
  }
  const VkSpecializationInfo special{static_cast<std::uint32_t>(entries.size()), entries.data(),
                                     values.size() * 4, values.data()};
  const VkShaderModule code = module(info.shader);
  const VkComputePipelineCreateInfo create{
      .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
      .flags = info.flags,
      .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                .module = code,
                .pName = "main",
                .pSpecializationInfo = entries.empty() ? nullptr : &special},
      .layout = p.layout};
  VK(vkCreateComputePipelines(device_, VK_NULL_HANDLE, 1, &create, nullptr, &p.handle));
  vkDestroyShaderModule(device_, code, nullptr);
  if (!info.name.empty())
    name_object(VK_OBJECT_TYPE_PIPELINE, reinterpret_cast<std::uint64_t>(p.handle), info.name);
  pipelines_.push_back(p);
  return p;
}

VkDescriptorSet Gpu::empty_set(const Pipeline& p) {
  std::vector<VkDescriptorPoolSize> sizes;
  for (const Binding& b : p.bindings) sizes.push_back({b.type, b.count});
  const VkDescriptorPoolCreateInfo pool_info{.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                             .maxSets = 1,
                                             .poolSizeCount = static_cast<std::uint32_t>(sizes.size()),
                                             .pPoolSizes = sizes.data()};
  VkDescriptorPool pool;
  VK(vkCreateDescriptorPool(device_, &pool_info, nullptr, &pool));
  descriptor_pools_.push_back(pool);
  const VkDescriptorSetAllocateInfo info{.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                         .descriptorPool = pool,
                                         .descriptorSetCount = 1,
                                         .pSetLayouts = &p.set_layout};
  VkDescriptorSet set;
  VK(vkAllocateDescriptorSets(device_, &info, &set));
  return set;
}

VkDescriptorSet Gpu::set(const Pipeline& p, const std::vector<Buffer>& buffers) {
  VkDescriptorSet set = empty_set(p);
  std::size_t next = 0;
  for (std::uint32_t i = 0; i < p.bindings.size(); ++i)
    for (std::uint32_t e = 0; e < p.bindings[i].count; ++e)
      write(set, i, e, p.bindings[i].type, buffers.at(next++));
  return set;
}

void Gpu::write(VkDescriptorSet set, std::uint32_t binding, std::uint32_t element, VkDescriptorType type,
                const Buffer& b, VkDeviceSize offset, VkDeviceSize range) {
  const VkDescriptorBufferInfo info{b.handle, offset, range};
  const VkWriteDescriptorSet write{.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                   .dstSet = set,
                                   .dstBinding = binding,
                                   .dstArrayElement = element,
                                   .descriptorCount = 1,
                                   .descriptorType = type,
                                   .pBufferInfo = &info};
  vkUpdateDescriptorSets(device_, 1, &write, 0, nullptr);
}

VkCommandBuffer Gpu::begin(VkCommandBufferUsageFlags flags, VkCommandBufferLevel level) {
  const VkCommandBufferAllocateInfo info{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                         .commandPool = pool_,
                                         .level = level,
                                         .commandBufferCount = 1};
  VkCommandBuffer commands;
  VK(vkAllocateCommandBuffers(device_, &info, &commands));
  const VkCommandBufferInheritanceInfo inherit{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_INHERITANCE_INFO};
  const VkCommandBufferBeginInfo begin{
      .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, .flags = flags, .pInheritanceInfo = &inherit};
  VK(vkBeginCommandBuffer(commands, &begin));
  return commands;
}

void Gpu::end(VkCommandBuffer commands) { VK(vkEndCommandBuffer(commands)); }

void Gpu::submit(VkCommandBuffer commands) {
  const VkFenceCreateInfo fence_info{.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
  VkFence fence;
  VK(vkCreateFence(device_, &fence_info, nullptr, &fence));
  const VkSubmitInfo submit{
      .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &commands};
  VK(vkQueueSubmit(queues_[0], 1, &submit, fence));
  VK(vkWaitForFences(device_, 1, &fence, VK_TRUE, UINT64_MAX));
  vkDestroyFence(device_, fence, nullptr);
}

void barrier(VkCommandBuffer c) {
  const VkMemoryBarrier all{.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                            .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
                            .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
                                             VK_ACCESS_INDIRECT_COMMAND_READ_BIT |
                                             VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT |
                                             VK_ACCESS_HOST_READ_BIT};
  const VkPipelineStageFlags work = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
  vkCmdPipelineBarrier(c, work, work | VK_PIPELINE_STAGE_DRAW_INDIRECT_BIT | VK_PIPELINE_STAGE_HOST_BIT, 0, 1,
                       &all, 0, nullptr, 0, nullptr);
}

float noise(std::uint32_t index, std::uint32_t stream) {
  std::uint32_t x = index * 0x9e3779b9u + stream * 0x85ebca6bu + 0x1234567u;
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  x ^= x >> 16;
  return static_cast<float>(x >> 8) * (2.0f / 16777216.0f) - 1.0f;
}

std::vector<float> noise_vector(std::size_t count, std::uint32_t stream) {
  std::vector<float> v(count);
  for (std::size_t i = 0; i < count; ++i) v[i] = noise(static_cast<std::uint32_t>(i), stream);
  return v;
}

bool near(float a, float b, float scale) { return std::fabs(a - b) <= 4e-6f * std::max(scale, std::fabs(b)); }

std::uint64_t checksum(std::span<const std::byte> bytes) {
  std::uint64_t h = 0xcbf29ce484222325ull;
  for (std::byte b : bytes) h = (h ^ static_cast<std::uint64_t>(b)) * 0x100000001b3ull;
  return h;
}

int finish(std::uint64_t sum, std::uint64_t wrong, std::uint64_t checked) {
  if (wrong) {
    std::printf("%s: wrong, %llu of %llu values\n", program_name().c_str(),
                static_cast<unsigned long long>(wrong), static_cast<unsigned long long>(checked));
    return 1;
  }
  std::printf("%s: ok, checksum %016llx\n", program_name().c_str(), static_cast<unsigned long long>(sum));
  return 0;
}

}  // namespace example
