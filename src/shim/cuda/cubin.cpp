// SPDX-License-Identifier: Apache-2.0
#include "shim/cuda/cubin.h"

#include <elf.h>

#include <algorithm>
#include <cstring>

namespace klab::shim {
namespace {

constexpr std::size_t kMaxSections = 1u << 20, kMaxVariables = 1u << 16, kMaxParameters = 4096;
constexpr std::uint16_t kMachineCuda = 190;
constexpr unsigned kSymbolManaged = 0x4;

// .nv.info records: format, attribute, then a value of two bytes or a length and that many bytes.
constexpr std::uint8_t kSized = 4, kParameterInfo = 0x17, kParameterBytes = 0x19;

bool inside(std::uint64_t offset, std::uint64_t size, std::uint64_t whole) {
  return offset <= whole && size <= whole - offset;
}

template <class T>
T at(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::string_view text_at(std::span<const std::byte> table, std::uint64_t offset) {
  if (offset >= table.size()) return {};
  const char* begin = reinterpret_cast<const char*>(table.data()) + offset;
  const std::size_t most = table.size() - offset;
  const std::size_t length = ::strnlen(begin, most);
  return length == most ? std::string_view{} : std::string_view(begin, length);
}

bool starts_with(std::string_view text, std::string_view start) { return text.substr(0, start.size()) == start; }

}  // namespace

Cubin::Cubin(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(Elf64_Ehdr)) return;
  const auto header = at<Elf64_Ehdr>(bytes, 0);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_machine != kMachineCuda ||
      header.e_shentsize != sizeof(Elf64_Shdr) || !inside(header.e_shoff, sizeof(Elf64_Shdr), bytes.size()))
    return;
  // More sections than e_shnum can say: the first section header has the counts.
  const auto first = at<Elf64_Shdr>(bytes, header.e_shoff);
  const std::uint64_t count = header.e_shnum != 0 ? header.e_shnum : first.sh_size;
  const std::uint64_t names = header.e_shstrndx != SHN_XINDEX ? header.e_shstrndx : first.sh_link;
  if (count > kMaxSections || names >= count || !inside(header.e_shoff, count * sizeof(Elf64_Shdr), bytes.size()))
    return;
  auto data_of = [&](const Elf64_Shdr& s) -> std::span<const std::byte> {
    if (s.sh_type == SHT_NOBITS || !inside(s.sh_offset, s.sh_size, bytes.size())) return {};
    return bytes.subspan(s.sh_offset, s.sh_size);
  };
  const auto table = data_of(at<Elf64_Shdr>(bytes, header.e_shoff + names * sizeof(Elf64_Shdr)));
  sections_.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto s = at<Elf64_Shdr>(bytes, header.e_shoff + i * sizeof(Elf64_Shdr));
    sections_.push_back({text_at(table, s.sh_name), s.sh_type, s.sh_link, s.sh_flags, data_of(s)});
  }
}

const Cubin::Section* Cubin::section(std::string_view name) const {
  const auto it = std::find_if(sections_.begin(), sections_.end(), [&](const Section& s) { return s.name == name; });
  return it != sections_.end() ? &*it : nullptr;
}

template <class F>
void Cubin::each_symbol(F&& use) const {
  for (const Section& s : sections_) {
    if (s.type != SHT_SYMTAB || s.link >= sections_.size()) continue;
    const auto names = sections_[s.link].data;
    for (std::size_t i = 0; i + sizeof(Elf64_Sym) <= s.data.size(); i += sizeof(Elf64_Sym)) {
      const auto symbol = at<Elf64_Sym>(s.data, i);
      if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx >= sections_.size()) continue;
      if (!use(symbol, text_at(names, symbol.st_name), sections_[symbol.st_shndx])) return;
    }
  }
}

bool Cubin::has_kernel(std::string_view mangled) const {
  return !mangled.empty() && section(".text." + std::string(mangled)) != nullptr;
}

std::vector<std::string> Cubin::kernels() const {
  constexpr std::string_view kText = ".text.";
  std::vector<std::string> names;
  for (const Section& s : sections_)
    if (starts_with(s.name, kText)) names.emplace_back(s.name.substr(kText.size()));
  return names;
}

std::optional<std::vector<Parameter>> Cubin::parameters(std::string_view mangled) const {
  const Section* info = section(".nv.info." + std::string(mangled));
  if (info == nullptr) return std::nullopt;
  const auto bytes = info->data;
  std::vector<Parameter> all;
  std::uint32_t told_bytes = 0;
  for (std::size_t i = 0; i + 4 <= bytes.size();) {
    const auto format = at<std::uint8_t>(bytes, i), attribute = at<std::uint8_t>(bytes, i + 1);
    const auto length = at<std::uint16_t>(bytes, i + 2);
    i += 4;
    if (format != kSized) {
      if (attribute == kParameterBytes) told_bytes = length;
      continue;
    }
    if (length > bytes.size() - i) return std::nullopt;
    if (attribute == kParameterInfo) {
      if (length < 12 || all.size() >= kMaxParameters) return std::nullopt;
      // index, ordinal and offset (16 bits each), and a word whose upper 14 bits are the size
      all.push_back({at<std::uint16_t>(bytes, i + 6), at<std::uint32_t>(bytes, i + 8) >> 18});
    }
    i += length;
  }
  std::sort(all.begin(), all.end(), [](const Parameter& a, const Parameter& b) { return a.offset < b.offset; });
  std::uint32_t end = 0;
  for (const Parameter& p : all) {
    if (p.offset < end || p.size == 0) return std::nullopt;
    end = p.offset + p.size;
  }
  // A record of a kind that is not known here (sizes over 14 bits) would leave a hole at the end.
  if (told_bytes != 0 && end != told_bytes) return std::nullopt;
  return all;
}

std::vector<Variable> Cubin::variables() const {
  std::vector<Variable> all;
  each_symbol([&](const Elf64_Sym& symbol, std::string_view name, const Section& where) {
    if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT || symbol.st_size == 0 || name.empty()) return true;
    const bool constant = where.name == ".nv.constant3";
    if (!constant && where.name != ".nv.global" && where.name != ".nv.global.init") return true;
    all.push_back({std::string(name), symbol.st_size, constant, (symbol.st_other & kSymbolManaged) != 0});
    return all.size() < kMaxVariables;
  });
  return all;
}

}  // namespace klab::shim
