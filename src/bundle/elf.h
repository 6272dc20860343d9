// SPDX-License-Identifier: Apache-2.0
// Sections and symbols of a 64-bit little-endian ELF file of foreign origin, each checked against the file's size.
// Not here: what they mean (hsaco.h, compile/cubin). libelf would bring a library to save these few checks.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace klab::bundle {

inline constexpr std::uint16_t kElfMachineCuda = 190, kElfMachineAmdGpu = 224;
inline constexpr std::uint32_t kSectionSymbols = 2, kSectionNote = 7, kSectionNoBits = 8, kSectionDynamicSymbols = 11;
inline constexpr std::uint64_t kSectionWritable = 1;  // flags

struct ElfSection {
  std::string_view name;
  std::uint32_t type = 0, link = 0, info = 0;
  std::uint64_t flags = 0, address = 0, size = 0;  // of kSectionNoBits: not in the file
  std::span<const std::byte> bytes;   // empty for kSectionNoBits
};
struct ElfSymbol {
  std::string_view name;
  std::uint8_t type = 0, binding = 0, other = 0;
  std::uint16_t section = 0;  // 0: undefined
  std::uint64_t value = 0, size = 0;
};

/// Views into the bytes given, which must stay.
struct Elf {
  std::uint8_t os_abi = 0, abi_version = 0;
  std::uint32_t flags = 0;
  std::vector<ElfSection> sections;
  std::vector<ElfSymbol> symbols;  // of the first symbol table of the kind asked for, the null symbol included
  const ElfSection* section(std::string_view name) const;
};

/// `what`: "cubin", for messages. `symbols`: kSectionSymbols or kSectionDynamicSymbols.
/// Errors: invalid_data (not ELF, not for `machine`, anything outside the file).
Result<Elf> read_elf(std::span<const std::byte> bytes, std::uint16_t machine, std::string_view what,
                     std::uint32_t symbols = kSectionSymbols);

/// The little-endian word at `at`; the caller has checked that it is there.
template <class T>
T word_at(std::span<const std::byte> bytes, std::size_t at) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    value |= static_cast<T>(static_cast<T>(std::to_integer<std::uint8_t>(bytes[at + i])) << (8 * i));
  return value;
}

}  // namespace klab::bundle
