// SPDX-License-Identifier: Apache-2.0
// Lists devices and picks one by selector.
#include "gpu/vulkan/vulkan.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "gpu/vulkan/device.h"

namespace klab::gpu {
namespace vulkan {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

Result<std::size_t> choose(const std::vector<bundle::DeviceIdentity>& devices, std::string_view selector) {
  if (selector.empty()) {
    for (const char* type : {"discrete", "integrated", "virtual", "other"})
      for (std::size_t i = 0; i < devices.size(); ++i)
        if (devices[i].type == type) return i;
    return 0;
  }
  const std::string wanted = lower(selector);
  for (std::size_t i = 0; i < devices.size(); ++i)
    if (devices[i].uuid == wanted) return i;
  std::size_t index = 0;
  const char* end = wanted.data() + wanted.size();
  if (const auto parsed = std::from_chars(wanted.data(), end, index); parsed.ec == std::errc() && parsed.ptr == end)
    if (index < devices.size()) return index;
  for (std::size_t i = 0; i < devices.size(); ++i)
    if (lower(devices[i].name).find(wanted) != std::string::npos) return i;
  std::string names;
  for (std::size_t i = 0; i < devices.size(); ++i) names += fmt::format("{}{}: {}", i ? "; " : "", i, devices[i].name);
  return fail(ErrorCode::no_device, fmt::format("no Vulkan device is \"{}\"; here are {}", selector, names),
              "klab devices");
}

class VulkanApi final : public Api {
 public:
  std::string_view name() const override { return "vulkan"; }

  Result<std::vector<Listed>> list() override {
    KLAB_TRY(auto instance, Instance::create());
    KLAB_TRY(const auto devices, instance->devices());
    std::vector<Listed> out;
    for (VkPhysicalDevice physical : devices) {
      // A device that cannot be opened is still listed, without abilities.
      auto device = VulkanDevice::open(instance, physical, std::make_unique<HostRanges>());
      out.push_back(device ? Listed{(*device)->identity(), (*device)->abilities()}
                           : Listed{identify(*instance, physical), {}});
    }
    return out;
  }

  Result<std::unique_ptr<Device>> open(std::string_view selector, std::span<const AddressRange> wanted) override {
    // Before the loader: it and the drivers map libraries and heaps wherever they like.
    auto ranges = std::make_unique<HostRanges>();
    ranges->hold(wanted);
    KLAB_TRY(auto instance, Instance::create());
    KLAB_TRY(const auto devices, instance->devices());
    std::vector<bundle::DeviceIdentity> identities;
    for (VkPhysicalDevice physical : devices) identities.push_back(identify(*instance, physical));
    KLAB_TRY(const std::size_t chosen, choose(identities, selector));
    KLAB_TRY(std::unique_ptr<Device> device, VulkanDevice::open(std::move(instance), devices[chosen], std::move(ranges)));
    return device;
  }
};

}  // namespace
}  // namespace vulkan

std::unique_ptr<Api> make_vulkan() { return std::make_unique<vulkan::VulkanApi>(); }

}  // namespace klab::gpu
