// SPDX-License-Identifier: Apache-2.0
// Lists devices and picks one by selector.
#include "gpu/vulkan/vulkan.h"

#include "gpu/select.h"
#include "gpu/vulkan/device.h"

namespace klab::gpu {
namespace vulkan {
namespace {

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
    KLAB_TRY(const std::size_t chosen, choose_device("Vulkan", identities, selector));
    KLAB_TRY(std::unique_ptr<Device> device, VulkanDevice::open(std::move(instance), devices[chosen], std::move(ranges)));
    return device;
  }
};

}  // namespace
}  // namespace vulkan

std::unique_ptr<Api> make_vulkan() { return std::make_unique<vulkan::VulkanApi>(); }

}  // namespace klab::gpu
