// SPDX-License-Identifier: Apache-2.0
#include "gpu/telemetry.h"

#include "gpu/telemetry/sources.h"

namespace klab::gpu {

std::unique_ptr<Telemetry> open_telemetry(const bundle::DeviceIdentity& device, std::string& why) {
  constexpr std::uint32_t kNvidia = 0x10de, kAmd = 0x1002;
  if (device.type == "cpu") {
    why = "a CPU driver: its clocks are the machine's, and are not observed";
    return nullptr;
  }
  if (device.api == "cuda" || device.vendor_id == kNvidia) return telemetry::open_nvml(device, why);
  if (device.api == "hip" || device.vendor_id == kAmd) return telemetry::open_amdgpu(device, "/sys/class/drm", why);
  why = "no way to read this vendor's clocks is known to klab";
  return nullptr;
}

void to_json(Json& j, const TelemetrySample& v) {
  j = Json::object();
  const auto put = [&](const char* name, const std::optional<double>& value) {
    if (value) j[name] = *value;
  };
  put("sm_mhz", v.core_mhz);
  put("memory_mhz", v.memory_mhz);
  put("power_w", v.power_w);
  put("temperature_c", v.temperature_c);
  if (!v.reasons.empty()) j["reasons"] = v.reasons;
}

}  // namespace klab::gpu
