// SPDX-License-Identifier: Apache-2.0
// SPIR-V modules as files and text: check, assemble, disassemble, strip. All by SPIRV-Tools.
// Not here: facts of a module (reflect.h).
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "compile/protocol.h"

namespace klab::compile {

using Words = std::vector<std::uint32_t>;

/// "vulkan1.2" or "vulkan1.2,spv1.5", as numbers of the Vulkan and SPIR-V headers. Errors: usage.
struct Target {
  std::uint32_t vulkan = 0, spirv = 0;  // VK_API_VERSION form; 0x00010500 form
};
Result<Target> parse_target(std::string_view text);

/// Errors: invalid_data when `bytes` is no SPIR-V (length, magic); a module of the other byte order is
/// turned.
Result<Words> words_of(std::string_view bytes);

/// Errors: compile_failed with the validator's words; also put into `messages`.
Status validate(std::span<const std::uint32_t> words, const Target& target, const std::string& file,
                std::vector<Message>& messages);

/// Errors: compile_failed, with file and line in `messages`.
Result<Words> assemble(std::string_view text, const Target& target, const std::string& file,
                       std::vector<Message>& messages);

/// Errors: invalid_data.
Result<std::string> disassemble(std::span<const std::uint32_t> words);

/// The module without names, debug information and generator, ids renumbered from 1: equal for equal code.
/// Errors: invalid_data when it does not validate.
Result<Words> strip(std::span<const std::uint32_t> words);

std::string tools_version();

}  // namespace klab::compile
