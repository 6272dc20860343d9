// SPDX-License-Identifier: Apache-2.0
// PTX as text: what it declares, and which source line an instruction of it came from. Pure.
// Not here: assembling it (assemble.h).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "compile/cuda_facts.h"

namespace klab::compile {

/// Version, target, entries with their parameters and limits, module variables. Sources: PTX ISA 9.0,
/// "Directives". Errors: invalid_data (no .version or .target).
Result<CudaFacts> read_ptx(std::string_view text);

struct SourceLine {
  std::string file;
  std::uint32_t line = 0;
};
/// The `.loc` in force at `line` (from 1) of PTX that was made with line information.
std::optional<SourceLine> source_of_ptx_line(std::string_view text, std::uint32_t line);

}  // namespace klab::compile
