// SPDX-License-Identifier: Apache-2.0
// Facts of an AMD GPU code object in the terms of cuda_facts.h: `registers` are vector registers, `local_bytes` scratch.
#pragma once
#include <span>

#include "compile/cuda_facts.h"

namespace klab::compile {

/// An HSACO, or a clang offload bundle that holds one for `arch` (empty: the only one in it).
bool looks_like_amdgpu_code(std::span<const std::byte> bytes);
/// The HSACO of a bundle; of an HSACO the bytes themselves. Errors: invalid_data, unsupported (none for `arch`).
Result<std::span<const std::byte>> unbundle(std::span<const std::byte> bytes, std::string_view arch);
/// Errors: invalid_data, unsupported.
Result<CudaFacts> read_hsaco_facts(std::span<const std::byte> hsaco);

}  // namespace klab::compile
