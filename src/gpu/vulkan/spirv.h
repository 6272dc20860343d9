// SPDX-License-Identifier: Apache-2.0
// Foreign SPIR-V: checked by SPIRV-Tools before a driver sees it, and what a launch must know of it.
// Not here: compiling (compile/), and disassembly for people.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "bundle/manifest.h"

namespace klab::gpu::vulkan {

struct Use {
  std::uint32_t set = 0, binding = 0;
};

/// What one compute entry point asks of a launch. Empty optionals: depends on what is not evaluated here.
struct EntryInterface {
  std::optional<bundle::Dim3> block;
  std::optional<std::uint64_t> shared_bytes;
  std::uint64_t push_bytes = 0;  // end of the push-constant block that it uses
  std::vector<Use> uses;         // descriptors that it statically uses
};

class Module {
 public:
  /// Validates for the Vulkan version of the device. Errors: invalid_data, with the validator's message.
  static Result<Module> read(std::span<const std::byte> bytes, std::uint32_t api_version);

  std::span<const std::uint32_t> words() const { return words_; }
  /// Names of the compute entry points.
  std::vector<std::string> entry_points() const;
  /// Errors: missing_symbol (names those that are there).
  Result<EntryInterface> entry(const std::string& name, std::span<const bundle::SpecConstant> constants) const;
  /// Bytes that specialization constant `id` has, or empty when there is none.
  std::optional<std::uint32_t> spec_constant_size(std::uint32_t id) const;
  /// Whether OpArrayLength occurs.
  bool asks_length() const;
  std::span<const std::uint32_t> capabilities() const { return capabilities_; }

 private:
  struct Definition {
    std::uint32_t opcode = 0, type = 0;
    std::vector<std::uint32_t> operands;  // words after the result id
  };
  struct EntryPoint {
    std::string name;
    std::uint32_t function = 0;
    bool compute = false;
  };
  struct Function {
    std::vector<std::uint32_t> calls, ids;
  };
  struct Decorations {
    std::optional<std::uint32_t> set, binding, spec_id, array_stride;
    bool workgroup_size = false;
    std::unordered_map<std::uint32_t, std::uint32_t> member_offset;
  };
  using Constants = std::unordered_map<std::uint32_t, std::uint64_t>;
  struct Parser;

  std::optional<std::uint64_t> value(std::uint32_t id, const Constants& constants, int depth = 0) const;
  std::optional<std::uint64_t> size_of(std::uint32_t type, const Constants& constants, int depth = 0) const;
  std::optional<std::uint64_t> struct_size(std::uint32_t type, const Constants& constants, int depth) const;

  std::vector<std::uint32_t> words_, capabilities_;
  std::vector<EntryPoint> entries_;
  std::unordered_map<std::uint32_t, Definition> definitions_;
  std::unordered_map<std::uint32_t, Decorations> decorations_;
  std::unordered_map<std::uint32_t, Function> functions_;
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> local_size_, local_size_id_;  // by function
};

}  // namespace klab::gpu::vulkan
