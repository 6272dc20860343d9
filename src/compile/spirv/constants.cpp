// SPDX-License-Identifier: Apache-2.0
#include "compile/spirv/constants.h"

#include <fmt/format.h>
#include <spirv/unified1/spirv.hpp11>

namespace klab::compile {
namespace {

std::uint64_t masked(std::uint64_t bits, std::uint32_t width) {
  return width >= 64 ? bits : bits & ((std::uint64_t{1} << width) - 1);
}
std::int64_t extended(std::uint64_t bits, std::uint32_t width) {
  if (width >= 64 || width == 0) return static_cast<std::int64_t>(bits);
  const std::uint64_t sign = std::uint64_t{1} << (width - 1);
  return static_cast<std::int64_t>((masked(bits, width) ^ sign) - sign);
}

}  // namespace

void Constants::declare(const spv_parsed_instruction_t& in) {
  const auto op = static_cast<spv::Op>(in.opcode);
  Value value;
  const auto type = types_.find(in.type_id);
  switch (op) {
    case spv::Op::OpConstantTrue:
    case spv::Op::OpConstantFalse:
    case spv::Op::OpSpecConstantTrue:
    case spv::Op::OpSpecConstantFalse:
      value.type = {Kind::boolean, 32, false};
      value.bits = op == spv::Op::OpConstantTrue || op == spv::Op::OpSpecConstantTrue ? 1 : 0;
      value.known = true;
      value.spec = op == spv::Op::OpSpecConstantTrue || op == spv::Op::OpSpecConstantFalse;
      break;
    case spv::Op::OpConstantNull:
    case spv::Op::OpConstant:
    case spv::Op::OpSpecConstant:
      if (type == types_.end()) return;
      value.type = type->second;
      value.spec = op == spv::Op::OpSpecConstant;
      value.known = value.type.width <= 64;
      if (op != spv::Op::OpConstantNull && in.num_operands > 2) {
        const spv_parsed_operand_t& literal = in.operands[2];
        value.bits = in.words[literal.offset];
        if (literal.num_words > 1) value.bits |= std::uint64_t{in.words[literal.offset + 1]} << 32;
        value.bits = masked(value.bits, value.type.width);
      }
      break;
    case spv::Op::OpConstantComposite:
    case spv::Op::OpSpecConstantComposite:
      for (std::uint32_t i = 2; i < in.num_operands; ++i)
        value.parts.push_back(in.words[in.operands[i].offset]);
      break;
    case spv::Op::OpSpecConstantOp:
      if (type == types_.end()) return;
      value = operation(in, type->second);
      break;
    default:
      return;
  }
  values_[in.result_id] = std::move(value);
}

Constants::Value Constants::operation(const spv_parsed_instruction_t& in, const Type& type) const {
  Value out;
  out.type = type;
  out.spec = true;  // by its name; one whose operands are all plain constants is folded by the tools
  if (in.num_operands < 4) return out;
  std::array<const Value*, 3> v{};
  const std::uint32_t count = in.num_operands - 3u;
  if (count > v.size()) return out;
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto found = values_.find(in.words[in.operands[3 + i].offset]);
    if (found == values_.end() || !found->second.known || found->second.type.kind == Kind::floating)
      return out;
    v[i] = &found->second;
  }
  const std::uint32_t width = v[0]->type.width;
  const std::uint64_t a = v[0]->bits, b = count > 1 ? v[1]->bits : 0;
  const std::int64_t sa = extended(a, width), sb = count > 1 ? extended(b, v[1]->type.width) : 0;
  const bool two = count == 2;
  out.known = true;
  const auto set = [&](bool arity, std::uint64_t bits) {
    out.known = arity;
    out.bits = masked(bits, type.width);
  };
  switch (static_cast<spv::Op>(in.words[in.operands[2].offset])) {
    case spv::Op::OpIAdd:
      set(two, a + b);
      break;
    case spv::Op::OpISub:
      set(two, a - b);
      break;
    case spv::Op::OpIMul:
      set(two, a * b);
      break;
    case spv::Op::OpUDiv:
      set(two && b != 0, b != 0 ? a / b : 0);
      break;
    case spv::Op::OpUMod:
      set(two && b != 0, b != 0 ? a % b : 0);
      break;
    // INT64_MIN / -1 overflows: by unsigned negation instead.
    case spv::Op::OpSDiv:
      set(two && sb != 0, sb == 0 ? 0 : sb == -1 ? 0 - a : static_cast<std::uint64_t>(sa / sb));
      break;
    case spv::Op::OpSRem:
      set(two && sb != 0, sb == 0 || sb == -1 ? 0 : static_cast<std::uint64_t>(sa % sb));
      break;
    case spv::Op::OpSMod: {
      if (!two || sb == 0) return out.known = false, out;
      std::int64_t r = sb == -1 ? 0 : sa % sb;
      if (r != 0 && (r < 0) != (sb < 0)) r += sb;
      set(true, static_cast<std::uint64_t>(r));
      break;
    }
    case spv::Op::OpSNegate:
      set(count == 1, 0 - a);
      break;
    case spv::Op::OpNot:
      set(count == 1, ~a);
      break;
    case spv::Op::OpShiftLeftLogical:
      set(two && b < 64, b < 64 ? a << b : 0);
      break;
    case spv::Op::OpShiftRightLogical:
      set(two && b < 64, b < 64 ? a >> b : 0);
      break;
    case spv::Op::OpShiftRightArithmetic:
      set(two && b < 64, static_cast<std::uint64_t>(sa >> (b < 64 ? b : 0)));
      break;
    case spv::Op::OpBitwiseAnd:
      set(two, a & b);
      break;
    case spv::Op::OpBitwiseOr:
      set(two, a | b);
      break;
    case spv::Op::OpBitwiseXor:
      set(two, a ^ b);
      break;
    case spv::Op::OpLogicalAnd:
      set(two, a & b);
      break;
    case spv::Op::OpLogicalOr:
      set(two, a | b);
      break;
    case spv::Op::OpLogicalNot:
      set(count == 1, a == 0);
      break;
    case spv::Op::OpLogicalEqual:
    case spv::Op::OpIEqual:
      set(two, a == b);
      break;
    case spv::Op::OpLogicalNotEqual:
    case spv::Op::OpINotEqual:
      set(two, a != b);
      break;
    case spv::Op::OpULessThan:
      set(two, a < b);
      break;
    case spv::Op::OpULessThanEqual:
      set(two, a <= b);
      break;
    case spv::Op::OpUGreaterThan:
      set(two, a > b);
      break;
    case spv::Op::OpUGreaterThanEqual:
      set(two, a >= b);
      break;
    case spv::Op::OpSLessThan:
      set(two, sa < sb);
      break;
    case spv::Op::OpSLessThanEqual:
      set(two, sa <= sb);
      break;
    case spv::Op::OpSGreaterThan:
      set(two, sa > sb);
      break;
    case spv::Op::OpSGreaterThanEqual:
      set(two, sa >= sb);
      break;
    case spv::Op::OpSelect:
      set(count == 3, a != 0 ? b : v[2] != nullptr ? v[2]->bits : 0);
      break;
    case spv::Op::OpUConvert:
      set(count == 1, a);
      break;
    case spv::Op::OpSConvert:
      set(count == 1, static_cast<std::uint64_t>(sa));
      break;
    default:
      out.known = false;
      break;
  }
  return out;
}

std::optional<std::uint64_t> Constants::unsigned_of(std::uint32_t id) const {
  const auto it = values_.find(id);
  if (it == values_.end() || !it->second.known || it->second.type.kind == Kind::floating) return std::nullopt;
  return it->second.bits;
}

bool Constants::from_spec(std::uint32_t id) const {
  const auto it = values_.find(id);
  return it != values_.end() && it->second.spec;
}

std::optional<std::array<std::uint32_t, 3>> Constants::triple(std::uint32_t id, bool& spec) const {
  const auto it = values_.find(id);
  if (it == values_.end() || it->second.parts.size() != 3) return std::nullopt;
  std::array<std::uint32_t, 3> out{};
  for (std::size_t i = 0; i < 3; ++i) {
    spec = spec || from_spec(it->second.parts[i]);
    out[i] = static_cast<std::uint32_t>(unsigned_of(it->second.parts[i]).value_or(0));
  }
  return out;
}

bool Constants::describe(std::uint32_t id, ReflectedSpec& spec) const {
  const auto it = values_.find(id);
  if (it == values_.end() || !it->second.known) return false;
  const Value& v = it->second;
  switch (v.type.kind) {
    case Kind::boolean:
      spec.type = "bool";
      break;
    case Kind::integer:
      spec.type = fmt::format("{}int{}", v.type.is_signed ? "" : "u", v.type.width);
      break;
    case Kind::floating:
      spec.type = v.type.width == 32   ? "float"
                  : v.type.width == 64 ? "double"
                                       : fmt::format("float{}", v.type.width);
      break;
  }
  const std::uint32_t bytes = std::min<std::uint32_t>((v.type.width + 7) / 8, 8);
  for (std::uint32_t i = 0; i < bytes; ++i)
    spec.default_value.push_back(static_cast<std::byte>(v.bits >> (8 * i)));
  return true;
}

}  // namespace klab::compile
