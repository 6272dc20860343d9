// SPDX-License-Identifier: Apache-2.0
// Values of a module's scalar constants, specialization constants at their defaults.
// Not here: types and layout (reflect.cpp). Floating point is kept as bits and never computed with.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include <spirv-tools/libspirv.h>

#include "compile/protocol.h"

namespace klab::compile {

class Constants {
 public:
  void bool_type(std::uint32_t id) { types_[id] = {Kind::boolean, 32, false}; }
  void int_type(std::uint32_t id, std::uint32_t width, bool is_signed) {
    types_[id] = {Kind::integer, width, is_signed};
  }
  void float_type(std::uint32_t id, std::uint32_t width) { types_[id] = {Kind::floating, width, false}; }
  /// Takes an instruction outside functions; what is no constant is passed over.
  void declare(const spv_parsed_instruction_t& in);

  /// Empty when `id` is no integer or bool constant, or its operation is not one that is computed here.
  std::optional<std::uint64_t> unsigned_of(std::uint32_t id) const;
  bool from_spec(std::uint32_t id) const;
  /// A composite of three; `spec` is set when a part of it is a specialization constant.
  std::optional<std::array<std::uint32_t, 3>> triple(std::uint32_t id, bool& spec) const;
  /// Fills in type and default value of a scalar constant.
  bool describe(std::uint32_t id, ReflectedSpec& spec) const;

 private:
  enum class Kind { boolean, integer, floating };
  struct Type {
    Kind kind = Kind::integer;
    std::uint32_t width = 32;
    bool is_signed = false;
  };
  struct Value {
    Type type;
    std::uint64_t bits = 0;
    bool known = false, spec = false;
    std::vector<std::uint32_t> parts;
  };
  Value operation(const spv_parsed_instruction_t& in, const Type& type) const;

  std::unordered_map<std::uint32_t, Type> types_;
  std::unordered_map<std::uint32_t, Value> values_;
};

}  // namespace klab::compile
