// SPDX-License-Identifier: Apache-2.0
// The kernel driver's files below /sys/class/drm/cardN/device: hwmon (docs.kernel.org/gpu/amdgpu/thermal.html) and
// gpu_metrics 1.3 (drivers/gpu/drm/amd/include/kgd_pp_interface.h). Written from these; not run on hardware.
#include <cstring>
#include <fstream>

#include <fmt/format.h>

#include "gpu/telemetry/sources.h"

namespace klab::gpu::telemetry {
namespace {

constexpr const char* kAmd = "0x1002";
// gpu_metrics 1.3: indep_throttle_status is 8 bytes at 112 of 120; bits 0 to 15 are power, 32 to 47 temperatures.
constexpr std::size_t kMetricsSize = 120, kThrottleAt = 112;
constexpr std::uint64_t kPowerBits = 0xffffull, kThermalBits = 0xffffull << 32;

std::string line_of(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

std::optional<double> number(const fs::path& file, double scale) {
  const std::string line = line_of(file);
  char* end = nullptr;
  const double value = std::strtod(line.c_str(), &end);
  if (line.empty() || end == line.c_str()) return std::nullopt;
  return value * scale;
}

class Amdgpu final : public Telemetry {
 public:
  Amdgpu(fs::path device, fs::path hwmon) : device_(std::move(device)), hwmon_(std::move(hwmon)) {}
  std::string_view source() const override { return "amdgpu"; }

  TelemetrySample sample() override {
    TelemetrySample s;
    s.core_mhz = number(hwmon_ / "freq1_input", 1e-6);
    s.memory_mhz = number(hwmon_ / "freq2_input", 1e-6);
    s.power_w = number(hwmon_ / "power1_average", 1e-6);
    if (!s.power_w) s.power_w = number(hwmon_ / "power1_input", 1e-6);
    s.temperature_c = number(hwmon_ / "temp1_input", 1e-3);
    std::ifstream in(device_ / "gpu_metrics", std::ios::binary);
    char bytes[kMetricsSize] = {};
    in.read(bytes, sizeof bytes);
    if (in.gcount() == static_cast<std::streamsize>(kMetricsSize) && bytes[2] == 1 && bytes[3] == 3) {
      std::uint64_t throttle = 0;
      std::memcpy(&throttle, bytes + kThrottleAt, sizeof throttle);
      if (throttle != ~0ull && (throttle & kPowerBits) != 0) s.reasons.emplace_back("power cap");
      if (throttle != ~0ull && (throttle & kThermalBits) != 0) {
        s.reasons.emplace_back("thermal slowdown");
        s.slowdown = "thermal slowdown";
      }
    }
    return s;
  }

  Json facts() override {
    Json j{{"performance_level", line_of(device_ / "power_dpm_force_performance_level")}};
    if (const auto limit = number(hwmon_ / "power1_cap", 1e-6)) j["power_limit_w"] = *limit;
    return j;
  }

 private:
  fs::path device_, hwmon_;
};

/// "0000:03:00.0" of a card; empty when it is not AMD's.
std::string address_of(const fs::path& device) {
  if (line_of(device / "vendor") != kAmd) return {};
  std::ifstream in(device / "uevent");
  for (std::string line; std::getline(in, line);)
    if (line.rfind("PCI_SLOT_NAME=", 0) == 0) return line.substr(std::strlen("PCI_SLOT_NAME="));
  return {};
}

}  // namespace

std::unique_ptr<Telemetry> open_amdgpu(const bundle::DeviceIdentity& device, const fs::path& root, std::string& why) {
  std::vector<fs::path> all, matching;
  std::error_code ec;
  for (const auto& entry : fs::directory_iterator(root, ec)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind("card", 0) != 0 || name.find('-') != std::string::npos) continue;
    const std::string address = address_of(entry.path() / "device");
    if (address.empty()) continue;
    all.push_back(entry.path() / "device");
    if (address == device.uuid) matching.push_back(all.back());
  }
  if (matching.empty() && all.size() == 1) matching = all;
  if (matching.size() != 1) {
    why = all.empty() ? fmt::format("no amdgpu card is below {}", root.string())
                      : fmt::format("which of {} amdgpu cards it is cannot be told from {}", all.size(), device.uuid);
    return nullptr;
  }
  for (const auto& entry : fs::directory_iterator(matching[0] / "hwmon", ec))
    if (line_of(entry.path() / "name") == "amdgpu") return std::make_unique<Amdgpu>(matching[0], entry.path());
  why = fmt::format("{} has no hwmon files", matching[0].string());
  return nullptr;
}

}  // namespace klab::gpu::telemetry
