// SPDX-License-Identifier: Apache-2.0
// The few facts of a SPIR-V module that the layer needs. The words are the program's: nothing is trusted.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace klab::shim {

struct SlotName {
  std::uint32_t set = 0, binding = 0;
  bool operator==(const SlotName&) const = default;
};

struct SpirvFacts {
  std::vector<SlotName> declared;  // by `entry`, as far as the module says
  std::string source_name;         // stem of the source file named in it, or empty
};

SpirvFacts read_facts(const std::vector<std::uint32_t>& words, std::string_view entry);

}  // namespace klab::shim
