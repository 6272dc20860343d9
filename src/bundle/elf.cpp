// SPDX-License-Identifier: Apache-2.0
#include "bundle/elf.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace klab::bundle {
namespace {

constexpr std::size_t kHeader = 64, kSectionHeader = 64, kSymbol = 24;

struct Bad {
  std::string_view kind;
  tl::unexpected<Error> operator()(std::string_view what) const {
    return fail(ErrorCode::invalid_data, fmt::format("not a usable {}: {}", kind, what), "is the file whole?");
  }
};

// The text at `at` of a string table, which must end inside of it.
Result<std::string_view> text_at(std::span<const std::byte> table, std::uint64_t at, const Bad& bad) {
  if (at >= table.size()) return bad(fmt::format("a name at {} of a table of {} bytes", at, table.size()));
  const char* begin = reinterpret_cast<const char*>(table.data()) + at;
  const void* end = std::memchr(begin, 0, table.size() - at);
  if (end == nullptr) return bad("a name without end");
  return std::string_view(begin, static_cast<std::size_t>(static_cast<const char*>(end) - begin));
}

}  // namespace

const ElfSection* Elf::section(std::string_view name) const {
  const auto found =
      std::find_if(sections.begin(), sections.end(), [&](const auto& s) { return s.name == name; });
  return found == sections.end() ? nullptr : &*found;
}

Result<Elf> read_elf(std::span<const std::byte> bytes, std::uint16_t machine, std::string_view what,
                     std::uint32_t symbols) {
  const Bad bad{what};
  if (bytes.size() < kHeader || std::memcmp(bytes.data(),
                                            "\x7f"
                                            "ELF\x02\x01\x01",
                                            7) != 0)
    return bad("it does not start as a 64-bit little-endian ELF file");
  Elf elf;
  elf.os_abi = word_at<std::uint8_t>(bytes, 7);
  elf.abi_version = word_at<std::uint8_t>(bytes, 8);
  if (const auto found = word_at<std::uint16_t>(bytes, 18); found != machine)
    return bad(fmt::format("it is code for ELF machine {}, not for {}", found, machine));
  elf.flags = word_at<std::uint32_t>(bytes, 48);
  const auto table = word_at<std::uint64_t>(bytes, 40);
  const std::size_t each = word_at<std::uint16_t>(bytes, 58), names_index = word_at<std::uint16_t>(bytes, 62);
  std::uint64_t count = word_at<std::uint16_t>(bytes, 60);
  if (table == 0 || table > bytes.size() || bytes.size() - table < kSectionHeader || each != kSectionHeader)
    return bad("its section table is outside the file");
  if (count == 0) count = word_at<std::uint64_t>(bytes, table + 32);  // more than 65279 sections
  if (count > (bytes.size() - table) / kSectionHeader) return bad("its section table is outside the file");

  std::vector<std::uint32_t> names;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::size_t at = table + i * kSectionHeader;
    ElfSection s;
    names.push_back(word_at<std::uint32_t>(bytes, at));
    s.type = word_at<std::uint32_t>(bytes, at + 4);
    s.flags = word_at<std::uint64_t>(bytes, at + 8);
    s.address = word_at<std::uint64_t>(bytes, at + 16);
    const auto offset = word_at<std::uint64_t>(bytes, at + 24);
    s.size = word_at<std::uint64_t>(bytes, at + 32);
    s.link = word_at<std::uint32_t>(bytes, at + 40);
    s.info = word_at<std::uint32_t>(bytes, at + 44);
    if (s.type != kSectionNoBits && s.type != 0) {
      if (offset > bytes.size() || s.size > bytes.size() - offset)
        return bad(fmt::format("section {} is outside the file", i));
      s.bytes = bytes.subspan(offset, s.size);
    }
    elf.sections.push_back(s);
  }
  std::size_t names_at = names_index;
  if (names_index == 0xffff && count > 0) names_at = elf.sections[0].link;
  if (names_at >= elf.sections.size()) return bad("its section names are nowhere");
  for (std::size_t i = 0; i < elf.sections.size(); ++i) {
    KLAB_TRY(elf.sections[i].name, text_at(elf.sections[names_at].bytes, names[i], bad));
  }
  for (const ElfSection& s : elf.sections) {
    if (s.type != symbols) continue;
    if (s.link >= elf.sections.size() || s.size % kSymbol != 0) return bad("its symbol table is damaged");
    const std::span<const std::byte> strings = elf.sections[s.link].bytes;
    for (std::size_t at = 0; at < s.size; at += kSymbol) {
      ElfSymbol symbol;
      KLAB_TRY(symbol.name, text_at(strings, word_at<std::uint32_t>(s.bytes, at), bad));
      const auto info = word_at<std::uint8_t>(s.bytes, at + 4);
      symbol.type = info & 0xf;
      symbol.binding = info >> 4;
      symbol.other = word_at<std::uint8_t>(s.bytes, at + 5);
      symbol.section = word_at<std::uint16_t>(s.bytes, at + 6);
      symbol.value = word_at<std::uint64_t>(s.bytes, at + 8);
      symbol.size = word_at<std::uint64_t>(s.bytes, at + 16);
      elf.symbols.push_back(symbol);
    }
    break;
  }
  return elf;
}

}  // namespace klab::bundle
