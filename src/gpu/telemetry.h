// SPDX-License-Identifier: Apache-2.0
// What a management library says of a device while it works: clocks, power, temperature, why it is slow, who else uses
// it. Only looked at, never set. Not here: what follows from it (worker/observer.h).
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bundle/manifest.h"

namespace klab::gpu {

struct TelemetrySample {
  std::optional<double> core_mhz, memory_mhz, power_w, temperature_c;
  std::vector<std::string> reasons;  // why clocks are below what was asked for: "power cap", "thermal slowdown"
  /// Of these, what makes times unusable: a slowdown for heat or by hardware. Power capping is the kernel's own cost.
  std::string slowdown;
  /// Another process computed on the device since the last sample; empty: none was seen.
  std::string foreign;
};
void to_json(Json& j, const TelemetrySample& v);

class Telemetry {
 public:
  virtual ~Telemetry() = default;
  virtual std::string_view source() const = 0;  // "nvml", "amdgpu"
  /// Some 0.1 ms. What cannot be read is left empty.
  virtual TelemetrySample sample() = 0;
  /// Limits and versions, read once: {"driver", "power_limit_w", "max_core_mhz", ...}
  virtual Json facts() = 0;
};

/// Opens what there is for this device: NVML by its UUID (libnvidia-ml.so.1, dlopen), amdgpu's sysfs by its PCI address.
/// nullptr, and `why` filled in, when clocks cannot be observed.
std::unique_ptr<Telemetry> open_telemetry(const bundle::DeviceIdentity& device, std::string& why);

}  // namespace klab::gpu
