// SPDX-License-Identifier: Apache-2.0
// Records of one capture that CUDA and HIP send alike. Not here: when, and of what.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "shim/abi/abi.h"
#include "shim/common/link.h"

namespace klab::shim {

/// REGION with its name. `record` has all but header and length.
inline bool send_region(klab_region record, std::string_view name) {
  name = name.substr(0, KLAB_MAX_TEXT);
  record.name_length = static_cast<std::uint32_t>(name.size());
  return link().send(&record, sizeof record, KLAB_REGION, {name});
}

/// klab_answer, or 0 when klab is gone.
inline std::uint32_t ask_size(std::uint64_t bytes, bool final) {
  klab_size size{};
  size.bytes = bytes;
  size.final = final ? 1 : 0;
  return link().ask(&size, sizeof size, KLAB_SIZE);
}

inline void send_attribute(std::string_view name, std::int64_t value) {
  klab_attribute a{};
  a.value = value;
  a.name_length = static_cast<std::uint32_t>(name.size());
  link().send(&a, sizeof a, KLAB_ATTRIBUTE, {name});
}

}  // namespace klab::shim
