// SPDX-License-Identifier: Apache-2.0
// Machine code as text, and its instruction counts, through nvdisasm or cuobjdump where one is there.
#pragma once
#include <string>

#include "compile/protocol.h"

namespace klab::compile {

struct Disassembly {
  std::string text, tool;
};
/// Errors: environment (neither tool is there), compile_failed (it failed, with its words).
Result<Disassembly> disassemble_cubin(const std::string& cubin);

/// Fills in `instructions` of each kernel, or says in disassembler_problem why not.
void add_instruction_counts(const std::string& cubin, CudaFacts& facts);

}  // namespace klab::compile
