// SPDX-License-Identifier: Apache-2.0
// Reads what `nvdisasm -c` and `cuobjdump --dump-sass` print, and counts its instructions.
// Not here: running them (cuda/disassemble.h).
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "compile/cuda_facts.h"

namespace klab::compile {

/// Instructions by the name of the function whose section they are in. Lines that are no instructions are
/// passed over.
std::map<std::string, InstructionMix> count_instructions(std::string_view text);

/// Whether this opcode drives a matrix unit: "HMMA", "HGMMA", "IMMA", "QGMMA", "DMMA", "BMMA", "OMMA",
/// "UTCHMMA", ...
bool is_matrix_opcode(std::string_view opcode);

}  // namespace klab::compile
