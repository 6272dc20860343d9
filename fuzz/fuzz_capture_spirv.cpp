// SPDX-License-Identifier: Apache-2.0
// SPIR-V as the layer reads it inside the program, and as klab reads it for the workgroup size.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "capture/spirv.h"
#include "shim/vulkan/spirv.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::uint32_t> words(size / 4);
  if (!words.empty()) std::memcpy(words.data(), data, words.size() * 4);
  const auto facts = klab::shim::read_facts(words, "main");
  if (facts.declared.size() > words.size() || facts.source_name.size() > 200) std::abort();
  (void)klab::capture::workgroup_size({reinterpret_cast<const std::byte*>(data), size}, "main", {});
  return 0;
}
