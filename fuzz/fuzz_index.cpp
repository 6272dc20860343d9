// SPDX-License-Identifier: Apache-2.0
// data.idx: what is accepted is written back byte for byte.
#include "bundle/index.h"
#include "fuzz.h"

using namespace klab;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  const auto index = bundle::read_index(std::as_bytes(std::span(text)), "fuzz");
  if (index) FUZZ_CHECK(bundle::write_index(*index) == text);
  return 0;
}
