// SPDX-License-Identifier: Apache-2.0
// What the bytes of a code object are, checked before the driver sees them. Pure.
// Not here: loading them (code.cpp), figures of a compiler's output (compile/).
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace klab::gpu::cuda {

enum class CodeKind { cubin, fatbin, ptx };

/// Errors: invalid_data: none of these, or its headers lead outside of it.
Result<CodeKind> code_kind(std::span<const std::byte> code);

/// Bytes of machine code of `kernel` (section .text.NAME) in a cubin; empty when it is not there.
std::optional<std::uint64_t> text_bytes(std::span<const std::byte> cubin, std::string_view kernel);

/// A variable of a cubin: __device__ (any section .nv.global*) or __constant__ (.nv.constant3).
struct CubinVariable {
  std::string name;
  std::uint64_t size = 0;  // bytes
  bool constant = false;
};
/// From its symbol table. Errors: invalid_data (not an ELF file, or cut short).
Result<std::vector<CubinVariable>> cubin_variables(std::span<const std::byte> cubin);

}  // namespace klab::gpu::cuda
