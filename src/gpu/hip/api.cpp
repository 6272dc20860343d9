// SPDX-License-Identifier: Apache-2.0
// Lists devices and picks one by selector.
#include "gpu/hip/device.h"
#include "gpu/hip/hip.h"
#include "gpu/select.h"

namespace klab::gpu {
namespace hip {
namespace {

class HipApi final : public Api {
 public:
  std::string_view name() const override { return "hip"; }

  Result<std::vector<Listed>> list() override {
    KLAB_TRY(const Runtime* runtime, Runtime::load());
    KLAB_TRY(const auto all, read_all_facts(*runtime));
    std::vector<Listed> out;
    for (const Facts& f : all) out.push_back(f.listed);
    return out;
  }

  /// Ranges are not held before the runtime loads: it places its own where nothing is, and a collision is cured by
  /// another process image.
  Result<std::unique_ptr<Device>> open(std::string_view selector, std::span<const AddressRange>) override {
    KLAB_TRY(const Runtime* runtime, Runtime::load());
    KLAB_TRY(auto all, read_all_facts(*runtime));
    std::vector<bundle::DeviceIdentity> identities;
    for (const Facts& f : all) identities.push_back(f.listed.identity);
    KLAB_TRY(const std::size_t chosen, choose_device("HIP", identities, selector));
    KLAB_TRY(std::unique_ptr<Device> device, HipDevice::open(*runtime, std::move(all[chosen])));
    return device;
  }
};

}  // namespace
}  // namespace hip

std::unique_ptr<Api> make_hip() { return std::make_unique<hip::HipApi>(); }

}  // namespace klab::gpu
