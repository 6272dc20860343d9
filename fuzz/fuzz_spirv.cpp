// SPDX-License-Identifier: Apache-2.0
// SPIR-V from a stranger's program. What the tools do with it beyond decoding runs in klab-compile only.
#include <cstdint>
#include <cstdlib>

#include "compile/spirv/module.h"
#include "compile/spirv/reflect.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace klab::compile;
  const auto words = words_of({reinterpret_cast<const char*>(data), size});
  if (!words) return 0;
  const auto facts = reflect(*words);
  if (!facts) return 0;
  // What is said must be sayable, and no larger than what was read allows.
  const klab::Json json = *facts;
  if (json.dump(-1, ' ', false, klab::Json::error_handler_t::replace).empty()) std::abort();
  if (facts->bindings.size() + facts->spec_constants.size() > words->size()) std::abort();
  return 0;
}
