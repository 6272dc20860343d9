// SPDX-License-Identifier: Apache-2.0
// Facts of a SPIR-V module. Every instruction is decoded by SPIRV-Tools before it is looked at.
// Not here: validation and text forms (module.h).
#pragma once
#include <cstdint>
#include <span>

#include "base/error.h"
#include "compile/protocol.h"

namespace klab::compile {

/// Reads foreign words; a module that decodes but makes no sense yields zeros and empty members, never a
/// guess. Errors: invalid_data (does not decode), unsupported (an instruction newer than this SPIRV-Tools).
/// Thread: any.
Result<Reflection> reflect(std::span<const std::uint32_t> words);

}  // namespace klab::compile
