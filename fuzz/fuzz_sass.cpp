// SPDX-License-Identifier: Apache-2.0
// What a disassembler printed, whose input was a stranger's.
#include "compile/cubin/sass.h"
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (const auto& [name, mix] : klab::compile::count_instructions(klab::fuzz::text_of(data, size)))
    FUZZ_CHECK(mix.matrix_total() <= mix.total && mix.total <= size);
  return 0;
}
