// SPDX-License-Identifier: Apache-2.0
// PTX from a stranger's program.
#include "compile/ptx/ptx.h"
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace klab::compile;
  const std::string_view text = klab::fuzz::text_of(data, size);
  (void)source_of_ptx_line(text, size > 0 ? data[0] : 1);
  const auto facts = read_ptx(text);
  if (!facts) return 0;
  const klab::Json json = *facts;
  FUZZ_CHECK(!json.dump(-1, ' ', false, klab::Json::error_handler_t::replace).empty());
  return 0;
}
