// SPDX-License-Identifier: Apache-2.0
// What a capture needs of a cubin: which kernels it holds, the layout of their parameters, its variables. The bytes
// come out of the driver, yet nothing in them is trusted. Not here: instructions, resource figures (compile/).
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace klab::shim {

struct Parameter {
  std::uint32_t offset = 0, size = 0;  // bytes in the parameter buffer
};

struct Variable {
  std::string name;  // its symbol
  std::uint64_t size = 0;
  bool constant = false;
  bool managed = false;
};

/// A view: `bytes` must outlive it. Every call answers empty for bytes that are no 64-bit ELF cubin.
class Cubin {
 public:
  explicit Cubin(std::span<const std::byte> bytes);
  bool valid() const { return !sections_.empty(); }
  bool has_kernel(std::string_view mangled) const;
  std::vector<std::string> kernels() const;
  /// Ascending offsets; nullopt: not told.
  std::optional<std::vector<Parameter>> parameters(std::string_view mangled) const;
  /// Variables in global and user constant memory, as the symbol table has them.
  std::vector<Variable> variables() const;

 private:
  struct Section {
    std::string_view name;
    std::uint32_t type = 0, link = 0;
    std::uint64_t flags = 0;
    std::span<const std::byte> data;  // empty for NOBITS
  };
  template <class F>
  void each_symbol(F&& use) const;
  const Section* section(std::string_view name) const;
  std::vector<Section> sections_;
};

}  // namespace klab::shim
