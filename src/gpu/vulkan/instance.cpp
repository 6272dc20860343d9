// SPDX-License-Identifier: Apache-2.0
// Loads the Vulkan loader and names devices.
#include "gpu/vulkan/instance.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/json.h"

namespace klab::gpu::vulkan {
namespace {

constexpr const char* kInstallHint = "apt-get install libvulkan1 mesa-vulkan-drivers (or your GPU vendor's driver)";

// A worker may inherit the environment of a capture; its own dispatches must not be captured.
void drop_own_layer(const char* variable, char separator) {
  const char* value = getenv(variable);
  if (value == nullptr || std::strstr(value, "VK_LAYER_KLAB") == nullptr) return;
  std::string kept;
  std::string_view rest = value;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(separator), rest.size());
    const std::string_view layer = rest.substr(0, end);
    if (!layer.empty() && layer.find("VK_LAYER_KLAB") == std::string_view::npos) {
      if (!kept.empty()) kept += separator;
      kept += layer;
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (kept.empty())
    unsetenv(variable);
  else
    setenv(variable, kept.c_str(), 1);
}

Result<PFN_vkGetInstanceProcAddr> load_loader() {
  // Never closed: drivers leave threads behind that run its code.
  static void* const library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return fail(ErrorCode::environment, fmt::format("no Vulkan loader: {}", why ? why : "libvulkan.so.1 not found"),
                kInstallHint);
  }
  auto entry = reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(library, "vkGetInstanceProcAddr"));
  if (entry == nullptr)
    return fail(ErrorCode::environment, "libvulkan.so.1 has no vkGetInstanceProcAddr", kInstallHint);
  return entry;
}

std::string version_text(std::uint32_t v) {
  return fmt::format("{}.{}.{}", VK_API_VERSION_MAJOR(v), VK_API_VERSION_MINOR(v), VK_API_VERSION_PATCH(v));
}

}  // namespace

std::string result_name(VkResult result) {
  switch (result) {
#define KLAB_CASE(x) \
  case x:            \
    return #x;
    KLAB_CASE(VK_SUCCESS)
    KLAB_CASE(VK_NOT_READY)
    KLAB_CASE(VK_TIMEOUT)
    KLAB_CASE(VK_ERROR_OUT_OF_HOST_MEMORY)
    KLAB_CASE(VK_ERROR_OUT_OF_DEVICE_MEMORY)
    KLAB_CASE(VK_ERROR_INITIALIZATION_FAILED)
    KLAB_CASE(VK_ERROR_DEVICE_LOST)
    KLAB_CASE(VK_ERROR_MEMORY_MAP_FAILED)
    KLAB_CASE(VK_ERROR_LAYER_NOT_PRESENT)
    KLAB_CASE(VK_ERROR_EXTENSION_NOT_PRESENT)
    KLAB_CASE(VK_ERROR_FEATURE_NOT_PRESENT)
    KLAB_CASE(VK_ERROR_INCOMPATIBLE_DRIVER)
    KLAB_CASE(VK_ERROR_TOO_MANY_OBJECTS)
    KLAB_CASE(VK_ERROR_FRAGMENTED_POOL)
    KLAB_CASE(VK_ERROR_UNKNOWN)
    KLAB_CASE(VK_ERROR_OUT_OF_POOL_MEMORY)
    KLAB_CASE(VK_ERROR_INVALID_EXTERNAL_HANDLE)
    KLAB_CASE(VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS)
    KLAB_CASE(VK_ERROR_INVALID_SHADER_NV)
#undef KLAB_CASE
    default:
      return fmt::format("VkResult {}", static_cast<int>(result));
  }
}

tl::unexpected<Error> vk_fail(VkResult result, const char* call, ErrorCode otherwise) {
  const std::string what = fmt::format("{}: {}", call, result_name(result));
  switch (result) {
    case VK_ERROR_DEVICE_LOST:
      return fail(ErrorCode::device_fault, what, "the device was lost; a new worker is needed", result);
    case VK_ERROR_OUT_OF_HOST_MEMORY:
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
    case VK_ERROR_OUT_OF_POOL_MEMORY:
    case VK_ERROR_TOO_MANY_OBJECTS:
      return fail(ErrorCode::out_of_memory, what, "close other programs that use this device", result);
    default:
      return fail(otherwise, what, {}, result);
  }
}

Result<std::shared_ptr<Instance>> Instance::create() {
  drop_own_layer("VK_INSTANCE_LAYERS", ':');
  drop_own_layer("VK_LOADER_LAYERS_ENABLE", ',');
  KLAB_TRY(auto entry, load_loader());
  const auto enumerate_version =
      reinterpret_cast<PFN_vkEnumerateInstanceVersion>(entry(nullptr, "vkEnumerateInstanceVersion"));
  const auto create_instance = reinterpret_cast<PFN_vkCreateInstance>(entry(nullptr, "vkCreateInstance"));
  if (enumerate_version == nullptr || create_instance == nullptr)
    return fail(ErrorCode::environment, "the Vulkan loader is older than Vulkan 1.1", kInstallHint);

  const VkApplicationInfo application{.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                      .pApplicationName = "klab",
                                      .pEngineName = "klab",
                                      .apiVersion = VK_API_VERSION_1_3};
  const VkInstanceCreateInfo info{.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &application};
  std::shared_ptr<Instance> instance(new Instance());
  const VkResult created = create_instance(&info, nullptr, &instance->handle);
  if (created == VK_ERROR_INCOMPATIBLE_DRIVER)
    return fail(ErrorCode::environment, "the Vulkan loader found no driver", kInstallHint, created);
  if (created != VK_SUCCESS) return vk_fail(created, "vkCreateInstance", ErrorCode::environment);
  bool complete = true;
#define KLAB_LOAD(name)                                                                                          \
  instance->call.name = reinterpret_cast<PFN_vk##name>(entry(instance->handle, "vk" #name));                     \
  complete &= instance->call.name != nullptr;
  KLAB_VK_INSTANCE_FUNCTIONS(KLAB_LOAD)
#undef KLAB_LOAD
  if (!complete) return fail(ErrorCode::environment, "the Vulkan loader lacks functions of Vulkan 1.1", kInstallHint);
  return instance;
}

Instance::~Instance() {
  if (handle != nullptr && call.DestroyInstance != nullptr) call.DestroyInstance(handle, nullptr);
}

Result<std::vector<VkPhysicalDevice>> Instance::devices() const {
  std::uint32_t count = 0;
  call.EnumeratePhysicalDevices(handle, &count, nullptr);
  std::vector<VkPhysicalDevice> all(count), usable;
  const VkResult listed = call.EnumeratePhysicalDevices(handle, &count, all.data());
  if (listed != VK_SUCCESS && listed != VK_INCOMPLETE)
    return vk_fail(listed, "vkEnumeratePhysicalDevices", ErrorCode::no_device);
  all.resize(count);
  for (VkPhysicalDevice device : all) {
    VkPhysicalDeviceProperties2 properties{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
    call.GetPhysicalDeviceProperties2(device, &properties);
    if (properties.properties.apiVersion < VK_API_VERSION_1_1) continue;
    std::uint32_t families = 0;
    call.GetPhysicalDeviceQueueFamilyProperties(device, &families, nullptr);
    std::vector<VkQueueFamilyProperties> queues(families);
    call.GetPhysicalDeviceQueueFamilyProperties(device, &families, queues.data());
    if (std::any_of(queues.begin(), queues.end(), [](auto& q) { return q.queueFlags & VK_QUEUE_COMPUTE_BIT; }))
      usable.push_back(device);
  }
  if (usable.empty())
    return fail(ErrorCode::no_device,
                count == 0 ? std::string("no Vulkan device here")
                           : fmt::format("none of {} Vulkan devices has Vulkan 1.1 and a compute queue", count),
                "install a driver (apt-get install mesa-vulkan-drivers has a CPU one), or check VK_ICD_FILENAMES");
  return usable;
}

std::vector<std::string> device_extensions(const Instance& instance, VkPhysicalDevice device) {
  std::uint32_t count = 0;
  instance.call.EnumerateDeviceExtensionProperties(device, nullptr, &count, nullptr);
  std::vector<VkExtensionProperties> listed(count);
  instance.call.EnumerateDeviceExtensionProperties(device, nullptr, &count, listed.data());
  std::vector<std::string> names;
  for (std::uint32_t i = 0; i < count; ++i) names.emplace_back(listed[i].extensionName);
  return names;
}

bundle::DeviceIdentity identify(const Instance& instance, VkPhysicalDevice device) {
  VkPhysicalDeviceProperties2 base{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
  instance.call.GetPhysicalDeviceProperties2(device, &base);
  VkPhysicalDeviceDriverProperties driver{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES};
  VkPhysicalDeviceIDProperties ids{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES};
  const auto extensions = device_extensions(instance, device);
  if (base.properties.apiVersion >= VK_API_VERSION_1_2 ||
      std::find(extensions.begin(), extensions.end(), VK_KHR_DRIVER_PROPERTIES_EXTENSION_NAME) != extensions.end())
    ids.pNext = &driver;
  base.pNext = &ids;
  instance.call.GetPhysicalDeviceProperties2(device, &base);

  const VkPhysicalDeviceProperties& p = base.properties;
  bundle::DeviceIdentity identity;
  identity.api = "vulkan";
  identity.name = p.deviceName;
  identity.driver = driver.driverName;
  identity.driver_version = driver.driverInfo[0] != '\0' ? driver.driverInfo : version_text(p.driverVersion);
  identity.api_version = version_text(p.apiVersion);
  identity.uuid = to_hex(std::as_bytes(std::span(ids.deviceUUID)));
  switch (p.deviceType) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: identity.type = "discrete"; break;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: identity.type = "integrated"; break;
    case VK_PHYSICAL_DEVICE_TYPE_CPU: identity.type = "cpu"; break;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: identity.type = "virtual"; break;
    default: identity.type = "other";
  }
  identity.vendor_id = p.vendorID;
  identity.device_id = p.deviceID;
  return identity;
}

}  // namespace klab::gpu::vulkan
