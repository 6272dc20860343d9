// SPDX-License-Identifier: Apache-2.0
#include "shim/cuda/device.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <mutex>
#include <new>
#include <set>

#include "shim/common/link.h"
#include "shim/cuda/driver.h"

namespace klab::shim {
namespace {

struct Devices {
  std::mutex lock;
  std::set<CUdevice> told;
};
Devices& devices() {
  static Devices* const the = new Devices;
  return *the;
}

std::string read_version() {
  const int fd = ::open("/proc/driver/nvidia/version", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  char text[1024];
  const ssize_t n = ::read(fd, text, sizeof text);
  ::close(fd);
  return n > 0 ? version_in(std::string(text, static_cast<std::size_t>(n))) : std::string();
}

int attribute(CUdevice device, CUdevice_attribute which) {
  int value = 0;
  return driver().DeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? value : 0;
}

}  // namespace

std::string version_in(const std::string& text) {
  const std::string line = text.substr(0, text.find('\n'));
  // The first word of digits and dots with a dot in it: "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  ...".
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t end = std::min(line.find(' ', at), line.size());
    const std::string word = line.substr(at, end - at);
    const bool digits = std::all_of(word.begin(), word.end(), [](unsigned char c) { return std::isdigit(c) || c == '.'; });
    if (digits && word.find('.') != std::string::npos && word.size() > 2) return word;
    at = end + 1;
  }
  return {};
}

std::uint32_t announce_device(CUdevice device) {
  const auto number = static_cast<std::uint32_t>(device);
  Devices& all = devices();
  {
    std::lock_guard hold(all.lock);
    if (all.told.count(device) != 0) return number;
  }
  const Driver& d = driver();
  klab_device record{};
  record.device = number;
  record.api = KLAB_API_CUDA;
  record.type = attribute(device, CU_DEVICE_ATTRIBUTE_INTEGRATED) != 0 ? 1 : 2;  // as VkPhysicalDeviceType has them
  record.vendor_id = 0x10de;
  record.device_id =
      static_cast<std::uint32_t>(attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) * 10 +
                                 attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  int version = 0;
  if (d.DriverGetVersion(&version) == CUDA_SUCCESS) record.api_version = static_cast<std::uint32_t>(version);
  CUuuid uuid{};
  if (d.DeviceGetUuid != nullptr && d.DeviceGetUuid(&uuid, device) == CUDA_SUCCESS) {
    record.has_uuid = 1;
    std::memcpy(record.uuid, uuid.bytes, sizeof record.uuid);
  }
  char name[256] = {};
  if (const CUresult r = d.DeviceGetName(name, sizeof name - 1, device); r != CUDA_SUCCESS) {
    log("%s", failed("cuDeviceGetName", r).c_str());
    return number;
  }
  const std::string driver_version = read_version();
  const std::string_view maker = "NVIDIA";
  record.name_length = static_cast<std::uint32_t>(std::strlen(name));
  record.driver_length = static_cast<std::uint32_t>(maker.size());
  record.driver_version_length = static_cast<std::uint32_t>(driver_version.size());
  std::lock_guard hold(all.lock);
  if (all.told.insert(device).second) link().send(&record, sizeof record, KLAB_DEVICE, {name, maker, driver_version});
  return number;
}

std::uint32_t announce_current_device() {
  CUdevice device = 0;
  if (driver().CtxGetDevice(&device) != CUDA_SUCCESS) return 0;
  return announce_device(device);
}

void devices_after_fork() { new (&devices().lock) std::mutex; }

}  // namespace klab::shim
