// SPDX-License-Identifier: Apache-2.0
// Facts of a cubin: kernels, their figures and parameter layouts, module variables. Pure: foreign bytes in,
// facts out. Forms read: CUDA 11 and 12 (ELF ABI 7) and CUDA 13 (ELF ABI 8). Not here: instruction counts
// (sass.h).
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "compile/cuda_facts.h"

namespace klab::compile {

bool looks_like_cubin(std::span<const std::byte> bytes);

/// Errors: invalid_data; unsupported (a relocatable object: it is linked first).
Result<CudaFacts> read_cubin(std::span<const std::byte> bytes);

/// The PTX that code built with line information carries. Errors: not_found, invalid_data.
Result<std::string> embedded_ptx(std::span<const std::byte> bytes);

/// Fills in spills from what `ptxas -v` printed, for kernels that the log names.
void read_spills(std::string_view log, CudaFacts& facts);

}  // namespace klab::compile
