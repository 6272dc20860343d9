// SPDX-License-Identifier: Apache-2.0
// NVIDIA's management library by dlopen. Signatures and bits: NVML API reference (docs.nvidia.com/deploy/nvml-api).
#include <dlfcn.h>

#include <array>
#include <set>

#include <fmt/format.h>

#include "gpu/telemetry/sources.h"

namespace klab::gpu::telemetry {
namespace {

using Handle = void*;
struct ProcessSample {  // nvmlProcessUtilizationSample_t
  unsigned pid;
  unsigned long long time_us;
  unsigned sm, memory, encoder, decoder;  // per cent
};

constexpr int kOk = 0, kNotEnoughRoom = 7;
constexpr int kSmClock = 1, kMemoryClock = 2, kGpuTemperature = 0;
constexpr unsigned kBusyPercent = 5;

struct Reason {
  unsigned long long bit;
  const char* name;
  bool slowdown;  // times are unusable
};
constexpr Reason kReasons[] = {
    {0x1, "idle", false},           {0x2, "application clocks", false},  {0x4, "power cap", false},
    {0x8, "hardware slowdown", true}, {0x10, "sync boost", false},       {0x20, "thermal slowdown", true},
    {0x40, "hardware thermal slowdown", true}, {0x80, "power brake", true}, {0x100, "display clocks", false},
};

struct Library {
  int (*Init)() = nullptr;
  int (*HandleByUuid)(const char*, Handle*) = nullptr;
  int (*Clock)(Handle, int, unsigned*) = nullptr;
  int (*MaxClock)(Handle, int, unsigned*) = nullptr;
  int (*Power)(Handle, unsigned*) = nullptr;
  int (*PowerLimit)(Handle, unsigned*) = nullptr;
  int (*Temperature)(Handle, int, unsigned*) = nullptr;
  int (*Reasons)(Handle, unsigned long long*) = nullptr;
  int (*Processes)(Handle, ProcessSample*, unsigned*, unsigned long long) = nullptr;

  template <class F>
  static void load(void* library, F& function, std::initializer_list<const char*> names) {
    for (const char* name : names)
      if (function == nullptr) function = reinterpret_cast<F>(dlsym(library, name));
  }
};

class Nvml final : public Telemetry {
 public:
  Nvml(const Library& library, Handle device) : nvml_(library), device_(device) { (void)foreign(); }
  std::string_view source() const override { return "nvml"; }

  TelemetrySample sample() override {
    TelemetrySample s;
    s.core_mhz = read(nvml_.Clock, 1, kSmClock);
    s.memory_mhz = read(nvml_.Clock, 1, kMemoryClock);
    s.power_w = read(nvml_.Power, 1e-3);
    s.temperature_c = read(nvml_.Temperature, 1, kGpuTemperature);
    unsigned long long bits = 0;
    if (nvml_.Reasons != nullptr && nvml_.Reasons(device_, &bits) == kOk)
      for (const Reason& r : kReasons)
        if ((bits & r.bit) != 0) {
          s.reasons.emplace_back(r.name);
          if (r.slowdown) s.slowdown = r.name;
        }
    s.foreign = foreign();
    return s;
  }

  Json facts() override {
    Json j = Json::object();
    const auto put = [&](const char* name, const std::optional<double>& value) {
      if (value) j[name] = *value;
    };
    put("power_limit_w", read(nvml_.PowerLimit, 1e-3));
    put("max_sm_mhz", read(nvml_.MaxClock, 1, kSmClock));
    put("max_memory_mhz", read(nvml_.MaxClock, 1, kMemoryClock));
    return j;
  }

 private:
  template <class F, class... Which>
  std::optional<double> read(F function, double scale, Which... which) {
    unsigned value = 0;
    if (function == nullptr || function(device_, which..., &value) != kOk) return std::nullopt;
    return value * scale;
  }

  /// Two processes that both used the multiprocessors: one of them is not us. Their numbers may be of another namespace,
  /// so they are only told apart.
  std::string foreign() {
    if (nvml_.Processes == nullptr) return {};
    std::array<ProcessSample, 256> samples{};
    auto count = static_cast<unsigned>(samples.size());
    const int r = nvml_.Processes(device_, samples.data(), &count, since_us_);
    if (r != kOk || count > samples.size()) return r == kNotEnoughRoom ? "many processes use the device" : "";
    std::set<unsigned> busy;
    for (unsigned i = 0; i < count; ++i) {
      since_us_ = std::max(since_us_, samples[i].time_us);
      if (samples[i].sm >= kBusyPercent) busy.insert(samples[i].pid);
    }
    return busy.size() > 1 ? "another process computed on the device" : "";
  }

  const Library& nvml_;
  Handle device_;
  unsigned long long since_us_ = 0;
};

/// GPU-01234567-89ab-cdef-0123-456789abcdef
std::string nvml_uuid(const std::string& hex) {
  if (hex.size() != 32) return hex;
  return fmt::format("GPU-{}-{}-{}-{}-{}", hex.substr(0, 8), hex.substr(8, 4), hex.substr(12, 4), hex.substr(16, 4), hex.substr(20));
}

}  // namespace

std::unique_ptr<Telemetry> open_nvml(const bundle::DeviceIdentity& device, std::string& why) {
  static const Library* const library = []() -> const Library* {
    // Its pages stay: a driver's library is not unloaded.
    void* const so = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (so == nullptr) return nullptr;
    static Library l;
    Library::load(so, l.Init, {"nvmlInit_v2"});
    Library::load(so, l.HandleByUuid, {"nvmlDeviceGetHandleByUUID"});
    Library::load(so, l.Clock, {"nvmlDeviceGetClockInfo"});
    Library::load(so, l.MaxClock, {"nvmlDeviceGetMaxClockInfo"});
    Library::load(so, l.Power, {"nvmlDeviceGetPowerUsage"});
    Library::load(so, l.PowerLimit, {"nvmlDeviceGetEnforcedPowerLimit"});
    Library::load(so, l.Temperature, {"nvmlDeviceGetTemperature"});
    Library::load(so, l.Reasons, {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"});
    Library::load(so, l.Processes, {"nvmlDeviceGetProcessUtilization"});
    return l.Init != nullptr && l.HandleByUuid != nullptr && l.Init() == kOk ? &l : nullptr;
  }();
  if (library == nullptr) {
    why = "libnvidia-ml.so.1 is not there or cannot start";
    return nullptr;
  }
  Handle handle = nullptr;
  if (const int r = library->HandleByUuid(nvml_uuid(device.uuid).c_str(), &handle); r != kOk) {
    why = fmt::format("NVML does not know the device {} (error {})", nvml_uuid(device.uuid), r);
    return nullptr;
  }
  return std::make_unique<Nvml>(*library, handle);
}

}  // namespace klab::gpu::telemetry
