// SPDX-License-Identifier: Apache-2.0
// Operands of an instruction that SPIRV-Tools decoded; result type and result id count as operands.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>

#include <spirv-tools/libspirv.h>

namespace klab::compile {

/// Operand `n` as its first word; 0 when there is none.
inline std::uint32_t word(const spv_parsed_instruction_t& in, std::uint32_t n) {
  return n < in.num_operands ? in.words[in.operands[n].offset] : 0;
}
/// Operand `n` as text; empty when it is none.
inline std::string text(const spv_parsed_instruction_t& in, std::uint32_t n) {
  if (n >= in.num_operands || in.operands[n].type != SPV_OPERAND_TYPE_LITERAL_STRING) return {};
  const char* chars = reinterpret_cast<const char*>(in.words + in.operands[n].offset);
  return std::string(chars, ::strnlen(chars, std::size_t{4} * in.operands[n].num_words));
}

}  // namespace klab::compile
