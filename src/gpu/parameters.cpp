// SPDX-License-Identifier: Apache-2.0
#include "gpu/parameters.h"

#include <algorithm>

#include <fmt/format.h>

namespace klab::gpu {
namespace {

std::string show(const bundle::Argument& a) { return fmt::format("{} bytes at offset {}", a.size, a.offset); }

}  // namespace

std::string layout_difference(std::span<const bundle::Argument> captured, std::span<const bundle::Argument> own) {
  for (std::size_t i = 0; i < std::max(captured.size(), own.size()); ++i) {
    if (i >= own.size()) return fmt::format("it has no parameter {} ({})", i, show(captured[i]));
    if (i >= captured.size()) return fmt::format("it has a parameter {} more ({})", i, show(own[i]));
    if (captured[i].offset != own[i].offset || captured[i].size != own[i].size)
      return fmt::format("its parameter {} is {}, the captured one {}", i, show(own[i]), show(captured[i]));
  }
  return {};
}

std::string show(const bundle::Dim3& d) { return fmt::format("{} x {} x {}", d[0], d[1], d[2]); }

}  // namespace klab::gpu
