// SPDX-License-Identifier: Apache-2.0
// VK_LAYER_KLAB_capture. Dependency budget: libc and the Vulkan headers; xxHash inlined, libstdc++ linked in.
// It never aborts and never throws into the program; when anything of ours fails, it logs one line and passes
// the call on. Without KLAB_CAPTURE_SOCKET it is idle: the program gets the next layer's pointers. Here: the
// loader's entry points, instances and devices.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "shim/vulkan/reader.h"
#include "shim/vulkan/registry.h"
#include "shim/vulkan/trace.h"

namespace klab::shim {
namespace {

constexpr char kLayerName[] = "VK_LAYER_KLAB_capture";

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL GetInstanceProcAddr(VkInstance instance, const char* name);
VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL GetDeviceProcAddr(VkDevice device, const char* name);

template <class T, class Create>
T* layer_info(const Create* info, VkStructureType type, VkLayerFunction function) {
  for (auto* s = static_cast<const VkBaseInStructure*>(info->pNext); s != nullptr; s = s->pNext)
    if (s->sType == type) {
      auto* found = const_cast<T*>(reinterpret_cast<const T*>(s));
      if (found->function == function) return found;
    }
  return nullptr;
}

VKAPI_ATTR VkResult VKAPI_CALL CreateInstance(const VkInstanceCreateInfo* info,
                                              const VkAllocationCallbacks* allocator, VkInstance* out) {
  auto* chain = layer_info<VkLayerInstanceCreateInfo>(info, VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO,
                                                      VK_LAYER_LINK_INFO);
  if (chain == nullptr || chain->u.pLayerInfo == nullptr) return VK_ERROR_INITIALIZATION_FAILED;
  const PFN_vkGetInstanceProcAddr next = chain->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  const auto create = reinterpret_cast<PFN_vkCreateInstance>(next(VK_NULL_HANDLE, "vkCreateInstance"));
  if (create == nullptr) return VK_ERROR_INITIALIZATION_FAILED;
  chain->u.pLayerInfo = chain->u.pLayerInfo->pNext;
  const VkResult result = create(info, allocator, out);
  if (result < 0) return result;
  quietly([&] {
    auto instance = std::make_unique<Instance>();
    instance->handle = *out;
    if (info->pApplicationInfo != nullptr && info->pApplicationInfo->apiVersion != 0)
      instance->api_version = info->pApplicationInfo->apiVersion;
    instance->next.GetInstanceProcAddr = next;
    // Now, not lazily: asking the chain later would come back to this layer.
#define KLAB_RESOLVE_(name) instance->next.name = reinterpret_cast<PFN_vk##name>(next(*out, "vk" #name));
    KLAB_INSTANCE_FUNCTIONS(KLAB_RESOLVE_)
#undef KLAB_RESOLVE_
    add_instance(std::move(instance));
    link().connect();
  });
  return result;
}

VKAPI_ATTR void VKAPI_CALL DestroyInstance(VkInstance handle, const VkAllocationCallbacks* allocator) {
  if (handle == VK_NULL_HANDLE) return;
  const auto instance = remove_instance(handle);
  if (instance) instance->next.DestroyInstance(handle, allocator);
}

bool has_extension(const Instance& i, VkPhysicalDevice physical, const char* name) {
  std::uint32_t n = 0;
  if (i.next.EnumerateDeviceExtensionProperties(physical, nullptr, &n, nullptr) < 0) return false;
  std::vector<VkExtensionProperties> all(n);
  if (i.next.EnumerateDeviceExtensionProperties(physical, nullptr, &n, all.data()) < 0) return false;
  return std::any_of(all.begin(), all.end(),
                     [&](const auto& e) { return std::strcmp(e.extensionName, name) == 0; });
}

// Turns a feature on in the program's own structures while the device is made, or adds a structure of ours.
class Features {
 public:
  Features(const VkDeviceCreateInfo& info, std::uint32_t version) : mine_(info), version_(version) {}
  ~Features() {
    for (const auto& [where, before] : changed_) *where = before;
  }
  const VkDeviceCreateInfo* info() const { return &mine_; }

  bool host_query_reset(bool supported) {
    if (auto* all =
            find<VkPhysicalDeviceVulkan12Features>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES))
      return all->hostQueryReset != VK_FALSE || (supported && set(all->hostQueryReset));
    if (auto* one = find<VkPhysicalDeviceHostQueryResetFeatures>(
            VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_HOST_QUERY_RESET_FEATURES))
      return one->hostQueryReset != VK_FALSE || (supported && set(one->hostQueryReset));
    if (!supported || version_ < VK_API_VERSION_1_2) return false;
    added_ = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_HOST_QUERY_RESET_FEATURES, const_cast<void*>(mine_.pNext),
              VK_TRUE};
    mine_.pNext = &added_;
    return true;
  }
  // Only where the program uses buffer addresses.
  bool address_capture(bool supported) {
    if (!supported) return false;
    if (auto* all =
            find<VkPhysicalDeviceVulkan12Features>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES))
      return all->bufferDeviceAddress != VK_FALSE && set(all->bufferDeviceAddressCaptureReplay);
    if (auto* one = find<VkPhysicalDeviceBufferDeviceAddressFeatures>(
            VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES))
      return one->bufferDeviceAddress != VK_FALSE && set(one->bufferDeviceAddressCaptureReplay);
    return false;
  }

 private:
  template <class T>
  T* find(VkStructureType type) {
    return const_cast<T*>(in_chain<T>(mine_.pNext, type));
  }
  bool set(VkBool32& feature) {
    changed_.emplace_back(&feature, feature);
    feature = VK_TRUE;
    return true;
  }
  VkDeviceCreateInfo mine_;
  std::uint32_t version_;
  VkPhysicalDeviceHostQueryResetFeatures added_{};
  std::vector<std::pair<VkBool32*, VkBool32>> changed_;
};

void announce_device(const Instance& i, const Device& d) {
  klab_device record{};
  std::string driver, driver_version;
  VkPhysicalDeviceDriverProperties names{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES};
  VkPhysicalDeviceIDProperties id{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES};
  VkPhysicalDeviceProperties2 all{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, &id};
  const auto get = i.next.GetPhysicalDeviceProperties2 != nullptr ? i.next.GetPhysicalDeviceProperties2
                                                                  : i.next.GetPhysicalDeviceProperties2KHR;
  if (get != nullptr && d.properties.apiVersion >= VK_API_VERSION_1_1) {
    if (d.properties.apiVersion >= VK_API_VERSION_1_2 ||
        has_extension(i, d.physical, VK_KHR_DRIVER_PROPERTIES_EXTENSION_NAME))
      id.pNext = &names;
    get(d.physical, &all);
    record.has_uuid = 1;
    std::memcpy(record.uuid, id.deviceUUID, sizeof record.uuid);
    driver = names.driverName;
    driver_version = names.driverInfo;
  }
  if (driver_version.empty()) driver_version = std::to_string(d.properties.driverVersion);
  const std::string_view name = d.properties.deviceName;
  record.device = d.id;
  record.type = d.properties.deviceType;
  record.vendor_id = d.properties.vendorID;
  record.device_id = d.properties.deviceID;
  record.api_version = d.properties.apiVersion;
  record.name_length = static_cast<std::uint32_t>(name.size());
  record.driver_length = static_cast<std::uint32_t>(driver.size());
  record.driver_version_length = static_cast<std::uint32_t>(driver_version.size());
  link().send(&record, sizeof record, KLAB_DEVICE, {name, driver, driver_version});
}

VKAPI_ATTR VkResult VKAPI_CALL CreateDevice(VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                                            const VkAllocationCallbacks* allocator, VkDevice* out) {
  auto* chain = layer_info<VkLayerDeviceCreateInfo>(info, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO,
                                                    VK_LAYER_LINK_INFO);
  auto* data = layer_info<VkLayerDeviceCreateInfo>(info, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO,
                                                   VK_LOADER_DATA_CALLBACK);
  Instance* instance = find_instance(physical);
  if (chain == nullptr || chain->u.pLayerInfo == nullptr || instance == nullptr)
    return VK_ERROR_INITIALIZATION_FAILED;
  const PFN_vkGetInstanceProcAddr next_instance = chain->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  const PFN_vkGetDeviceProcAddr next = chain->u.pLayerInfo->pfnNextGetDeviceProcAddr;
  const auto create = reinterpret_cast<PFN_vkCreateDevice>(next_instance(instance->handle, "vkCreateDevice"));
  if (create == nullptr) return VK_ERROR_INITIALIZATION_FAILED;
  chain->u.pLayerInfo = chain->u.pLayerInfo->pNext;
  link().connect();

  std::unique_ptr<Device> d;
  std::uint32_t mode =
      data != nullptr && link().live() ? link().config().mode : std::uint32_t{KLAB_MODE_NONE};
  if (mode != KLAB_MODE_TRACE && mode != KLAB_MODE_CAPTURE) mode = KLAB_MODE_NONE;
  if (!quietly([&] {
        d = std::make_unique<Device>();
        d->physical = physical;
        d->instance = instance;
        d->mode = mode;
        if (mode != KLAB_MODE_NONE) {
          instance->next.GetPhysicalDeviceProperties(physical, &d->properties);
          instance->next.GetPhysicalDeviceMemoryProperties(physical, &d->memory_properties);
          std::uint32_t n = 0;
          instance->next.GetPhysicalDeviceQueueFamilyProperties(physical, &n, nullptr);
          std::vector<VkQueueFamilyProperties> families(n);
          instance->next.GetPhysicalDeviceQueueFamilyProperties(physical, &n, families.data());
          for (const auto& f : families) d->families.push_back({f.queueFlags, f.timestampValidBits});
        }
      }))
    return VK_ERROR_OUT_OF_HOST_MEMORY;

  const std::uint32_t version = std::min(d->properties.apiVersion, instance->api_version);
  Features features(*info, version);
  if (mode != KLAB_MODE_NONE && instance->next.GetPhysicalDeviceFeatures2 != nullptr &&
      version >= VK_API_VERSION_1_2) {
    VkPhysicalDeviceVulkan12Features has{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
    VkPhysicalDeviceFeatures2 all{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &has};
    instance->next.GetPhysicalDeviceFeatures2(physical, &all);
    if (mode == KLAB_MODE_TRACE)
      d->host_query_reset = features.host_query_reset(has.hostQueryReset != VK_FALSE);
    if (mode == KLAB_MODE_CAPTURE)
      d->address_capture = features.address_capture(has.bufferDeviceAddressCaptureReplay != VK_FALSE);
  }
  const VkResult result = create(physical, features.info(), allocator, out);
  if (result < 0) return result;
  quietly([&] {
    d->handle = *out;
    d->next.GetDeviceProcAddr = next;
#define KLAB_RESOLVE_(name) d->next.name = reinterpret_cast<PFN_vk##name>(next(*out, "vk" #name));
    KLAB_DEVICE_FUNCTIONS(KLAB_RESOLVE_)
#undef KLAB_RESOLVE_
    d->next.map2 = next(*out, "vkMapMemory2");
    d->next.map2_khr = next(*out, "vkMapMemory2KHR");
    d->next.unmap2 = next(*out, "vkUnmapMemory2");
    d->next.unmap2_khr = next(*out, "vkUnmapMemory2KHR");
    if (d->next.ResetQueryPool == nullptr) d->next.ResetQueryPool = d->next.ResetQueryPoolEXT;
    d->host_query_reset = d->host_query_reset && d->next.ResetQueryPool != nullptr;
    if (mode == KLAB_MODE_CAPTURE) {
      std::size_t i = 0;
#define KLAB_OWN(name) d->commands[i++] = next(*out, #name);
#define KLAB_CMD(name, effect) d->commands[i++] = next(*out, #name);
#include "shim/vulkan/commands.def"
#undef KLAB_OWN
#undef KLAB_CMD
    }
    if (data != nullptr) d->set_loader_data = data->u.pfnSetDeviceLoaderData;
    const auto* group = in_chain<VkDeviceGroupDeviceCreateInfo>(
        info->pNext, VK_STRUCTURE_TYPE_DEVICE_GROUP_DEVICE_CREATE_INFO);
    d->several_physical = group != nullptr && group->physicalDeviceCount > 1;
    if (mode == KLAB_MODE_TRACE) d->tracer = new Tracer;
    Device& added = add_device(std::move(d));
    if (mode != KLAB_MODE_NONE) announce_device(*instance, added);
  });
  return result;
}

VKAPI_ATTR void VKAPI_CALL DestroyDevice(VkDevice handle, const VkAllocationCallbacks* allocator) {
  if (handle == VK_NULL_HANDLE) return;
  Device* d = find_device(handle);
  if (d == nullptr) return;
  quietly([&] {
    if (d->tracer != nullptr && d->mode == KLAB_MODE_TRACE) finish_tracing(*d);
    if (d->mode != KLAB_MODE_NONE) send_counts();
    for (VkFence f : d->abandoned) d->next.DestroyFence(handle, f, nullptr);
    free_helpers(*d);
  });
  const auto destroy = d->next.DestroyDevice;
  remove_device(*d);
  destroy(handle, allocator);
}

void note_queue(Device& d, VkQueue queue, std::uint32_t family) {
  if (queue == VK_NULL_HANDLE) return;
  quietly([&] {
    std::lock_guard hold(d.lock);
    for (const auto& q : d.queues)
      if (q->handle == queue) return;
    auto q = std::make_unique<Queue>();
    q->handle = queue;
    q->family = family;
    q->index = static_cast<std::uint32_t>(d.queues.size());
    d.queues.push_back(std::move(q));
  });
}

VKAPI_ATTR void VKAPI_CALL GetDeviceQueue(VkDevice device, std::uint32_t family, std::uint32_t index,
                                          VkQueue* out) {
  Device& d = *find_device(device);
  d.next.GetDeviceQueue(device, family, index, out);
  note_queue(d, *out, family);
}

VKAPI_ATTR void VKAPI_CALL GetDeviceQueue2(VkDevice device, const VkDeviceQueueInfo2* info, VkQueue* out) {
  Device& d = *find_device(device);
  d.next.GetDeviceQueue2(device, info, out);
  note_queue(d, *out, info->queueFamilyIndex);
}

const std::unordered_map<std::string_view, Hook>& hooks() {
  static const auto* const all = [] {
    auto* table = new std::unordered_map<std::string_view, Hook>;
    for (const auto& list :
         {object_hooks(), descriptor_hooks(), pipeline_hooks(), record_hooks(), pool_hooks(), submit_hooks(),
          forward_hooks(),
          std::vector<Hook>{KLAB_HOOK(GetDeviceQueue, kBoth), KLAB_HOOK(GetDeviceQueue2, kBoth)}})
      for (const Hook& h : list) table->emplace(h.name, h);
    return table;
  }();
  return *all;
}

// For the tests: a command that is taken for one that is newer than the headers.
bool forgotten(const char* name) {
  const char* value = std::getenv("KLAB_SHIM_FORGET");
  return value != nullptr && std::strcmp(value, name) == 0;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL GetDeviceProcAddr(VkDevice device, const char* name) {
  if (std::strcmp(name, "vkGetDeviceProcAddr") == 0)
    return reinterpret_cast<PFN_vkVoidFunction>(&GetDeviceProcAddr);
  if (std::strcmp(name, "vkDestroyDevice") == 0) return reinterpret_cast<PFN_vkVoidFunction>(&DestroyDevice);
  Device* d = find_device(device);
  if (d == nullptr) return nullptr;
  const PFN_vkVoidFunction next = d->next.GetDeviceProcAddr(device, name);
  if (next == nullptr || d->mode == KLAB_MODE_NONE) return next;
  const auto it = hooks().find(name);
  if (d->mode == KLAB_MODE_CAPTURE && is_unknown_command(name) && (it == hooks().end() || forgotten(name)))
    return stand_in(*d, name, next);
  return it != hooks().end() && (it->second.modes & 1u << d->mode) != 0 ? it->second.function : next;
}

VKAPI_ATTR VkResult VKAPI_CALL EnumerateInstanceLayerProperties(std::uint32_t* count,
                                                                VkLayerProperties* out) {
  if (out == nullptr) {
    *count = 1;
    return VK_SUCCESS;
  }
  if (*count == 0) return VK_INCOMPLETE;
  *count = 1;
  out[0] = {};
  std::strcpy(out[0].layerName, kLayerName);
  std::strcpy(out[0].description, "Klab: takes one compute dispatch out of a program");
  out[0].specVersion = VK_HEADER_VERSION_COMPLETE;
  out[0].implementationVersion = 1;
  return VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL EnumerateInstanceExtensionProperties(const char* layer, std::uint32_t* count,
                                                                    VkExtensionProperties*) {
  if (layer == nullptr || std::strcmp(layer, kLayerName) != 0) return VK_ERROR_LAYER_NOT_PRESENT;
  *count = 0;
  return VK_SUCCESS;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL GetInstanceProcAddr(VkInstance instance, const char* name) {
  static const Hook kOwn[] = {KLAB_HOOK(GetInstanceProcAddr, 0),
                              KLAB_HOOK(CreateInstance, 0),
                              KLAB_HOOK(DestroyInstance, 0),
                              KLAB_HOOK(CreateDevice, 0),
                              KLAB_HOOK(GetDeviceProcAddr, 0),
                              KLAB_HOOK(DestroyDevice, 0),
                              KLAB_HOOK(EnumerateInstanceLayerProperties, 0),
                              KLAB_HOOK(EnumerateInstanceExtensionProperties, 0)};
  for (const Hook& h : kOwn)
    if (std::strcmp(name, h.name) == 0) return h.function;
  if (instance == VK_NULL_HANDLE) return nullptr;
  const Instance* i = find_instance(instance);
  if (i == nullptr) return nullptr;
  const PFN_vkVoidFunction next = i->next.GetInstanceProcAddr(instance, name);
  // Device functions asked for by instance: ours work for every device, but only when its mode is known to be
  // set.
  if (next == nullptr || !link().live()) return next;
  const auto it = hooks().find(name);
  return it != hooks().end() && (it->second.modes & 1u << link().config().mode) != 0 ? it->second.function
                                                                                     : next;
}

}  // namespace
}  // namespace klab::shim

extern "C" __attribute__((visibility("default"))) VKAPI_ATTR VkResult VKAPI_CALL
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface* version) {
  if (version == nullptr || version->sType != LAYER_NEGOTIATE_INTERFACE_STRUCT)
    return VK_ERROR_INITIALIZATION_FAILED;
  if (version->loaderLayerInterfaceVersion < 2) return VK_ERROR_INITIALIZATION_FAILED;
  version->loaderLayerInterfaceVersion = 2;
  version->pfnGetInstanceProcAddr = &klab::shim::GetInstanceProcAddr;
  version->pfnGetDeviceProcAddr = &klab::shim::GetDeviceProcAddr;
  version->pfnGetPhysicalDeviceProcAddr = nullptr;
  return VK_SUCCESS;
}
