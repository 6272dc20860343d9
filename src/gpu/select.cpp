// SPDX-License-Identifier: Apache-2.0
#include "gpu/select.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

namespace klab::gpu {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

}  // namespace

Result<std::size_t> choose_device(std::string_view title, const std::vector<bundle::DeviceIdentity>& devices,
                                  std::string_view selector) {
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
  if (const auto parsed = std::from_chars(wanted.data(), end, index);
      parsed.ec == std::errc() && parsed.ptr == end)
    if (index < devices.size()) return index;
  for (std::size_t i = 0; i < devices.size(); ++i)
    if (lower(devices[i].name).find(wanted) != std::string::npos) return i;
  std::string names;
  for (std::size_t i = 0; i < devices.size(); ++i)
    names += fmt::format("{}{}: {}", i ? "; " : "", i, devices[i].name);
  return fail(ErrorCode::no_device,
              fmt::format("no {} device is \"{}\"; here are {}", title, selector, names), "klab devices");
}

}  // namespace klab::gpu
