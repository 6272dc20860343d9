// SPDX-License-Identifier: Apache-2.0
// Lists devices and picks one by selector.
#include "gpu/cuda/cuda.h"
#include "gpu/cuda/device.h"
#include "gpu/select.h"

namespace klab::gpu {
namespace cuda {
namespace {

class CudaApi final : public Api {
 public:
  std::string_view name() const override { return "cuda"; }

  Result<std::vector<Listed>> list() override {
    KLAB_TRY(const Driver* driver, Driver::load());
    KLAB_TRY(const auto devices, all(*driver));
    std::vector<Listed> out;
    for (const CUdevice d : devices) {
      KLAB_TRY(auto facts, read_facts(*driver, d));
      out.push_back(std::move(facts.listed));
    }
    return out;
  }

  /// Holding the wanted ranges before the driver loads makes them harder to get (measured), so they are not.
  Result<std::unique_ptr<Device>> open(std::string_view selector, std::span<const AddressRange>) override {
    KLAB_TRY(const Driver* driver, Driver::load());
    KLAB_TRY(const auto devices, all(*driver));
    std::vector<bundle::DeviceIdentity> identities;
    for (const CUdevice d : devices) {
      KLAB_TRY(auto facts, read_facts(*driver, d));
      identities.push_back(std::move(facts.listed.identity));
    }
    KLAB_TRY(const std::size_t chosen, choose_device("CUDA", identities, selector));
    KLAB_TRY(std::unique_ptr<Device> device, CudaDevice::open(*driver, devices[chosen]));
    return device;
  }

 private:
  static Result<std::vector<CUdevice>> all(const Driver& driver) {
    int count = 0;
    KLAB_CU_TRY(driver.DeviceGetCount(&count), "cuDeviceGetCount", ErrorCode::no_device);
    if (count == 0)
      return fail(ErrorCode::no_device, "the CUDA driver finds no GPU",
                  "check nvidia-smi and CUDA_VISIBLE_DEVICES");
    std::vector<CUdevice> devices(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i)
      KLAB_CU_TRY(driver.DeviceGet(&devices[static_cast<std::size_t>(i)], i), "cuDeviceGet");
    return devices;
  }
};

}  // namespace
}  // namespace cuda

std::unique_ptr<Api> make_cuda() { return std::make_unique<cuda::CudaApi>(); }

}  // namespace klab::gpu
