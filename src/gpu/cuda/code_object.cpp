// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/code_object.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <string>

#include <fmt/format.h>

namespace klab::gpu::cuda {
namespace {

constexpr std::uint32_t kFatbinMagic = 0xba55ed50;
struct FatbinHeader {
  std::uint32_t magic;
  std::uint16_t version, header_bytes;
  std::uint64_t bytes;  // after the header
};

template <class T>
bool read_at(std::span<const std::byte> bytes, std::uint64_t at, T& out) {
  if (at > bytes.size() || sizeof(T) > bytes.size() - at) return false;
  std::memcpy(&out, bytes.data() + at, sizeof(T));
  return true;
}

bool section_at(std::span<const std::byte> elf, const Elf64_Ehdr& head, std::uint32_t index,
                Elf64_Shdr& out) {
  return read_at(elf, head.e_shoff + std::uint64_t{index} * sizeof(Elf64_Shdr), out);
}

Status check_elf(std::span<const std::byte> elf) {
  Elf64_Ehdr head{};
  if (!read_at(elf, 0, head) || head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_ident[EI_DATA] != ELFDATA2LSB)
    return fail(ErrorCode::invalid_data, "the code object is not a 64-bit ELF file");
  if (head.e_shnum != 0 && head.e_shentsize != sizeof(Elf64_Shdr))
    return fail(ErrorCode::invalid_data,
                fmt::format("the cubin's section headers have {} bytes", head.e_shentsize));
  if (head.e_shoff > elf.size() ||
      std::uint64_t{head.e_shnum} * sizeof(Elf64_Shdr) > elf.size() - head.e_shoff ||
      head.e_phoff > elf.size() || std::uint64_t{head.e_phnum} * head.e_phentsize > elf.size() - head.e_phoff)
    return fail(ErrorCode::invalid_data, "the cubin is cut short: its headers lead past its end");
  for (std::uint32_t i = 0; i < head.e_shnum; ++i) {
    Elf64_Shdr section{};
    (void)section_at(elf, head, i, section);
    if (section.sh_type == SHT_NOBITS || section.sh_type == SHT_NULL) continue;
    if (section.sh_offset > elf.size() || section.sh_size > elf.size() - section.sh_offset)
      return fail(ErrorCode::invalid_data,
                  fmt::format("the cubin is cut short: section {} leads past its end", i));
  }
  return {};
}

}  // namespace

Result<CodeKind> code_kind(std::span<const std::byte> code) {
  if (code.size() >= 4 && std::memcmp(code.data(), ELFMAG, SELFMAG) == 0) {
    KLAB_TRY_VOID(check_elf(code));
    return CodeKind::cubin;
  }
  FatbinHeader fat{};
  if (read_at(code, 0, fat) && fat.magic == kFatbinMagic) {
    if (fat.header_bytes < sizeof fat || fat.bytes > code.size() ||
        fat.header_bytes > code.size() - fat.bytes)
      return fail(ErrorCode::invalid_data, "the fat binary is cut short");
    return CodeKind::fatbin;
  }
  // PTX is text whose first statement is .version.
  std::string_view text(reinterpret_cast<const char*>(code.data()), code.size());
  while (!text.empty() && text.back() == '\0') text.remove_suffix(1);
  if (text.find('\0') == std::string_view::npos && text.find(".version") != std::string_view::npos &&
      text.find(".target") != std::string_view::npos)
    return CodeKind::ptx;
  return fail(ErrorCode::invalid_data, "the code object is no cubin, fat binary or PTX",
              "CUDA kernels are given as one of these, or as source");
}

std::optional<std::uint64_t> text_bytes(std::span<const std::byte> elf, std::string_view kernel) {
  Elf64_Ehdr head{};
  Elf64_Shdr names{};
  if (!read_at(elf, 0, head) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || !check_elf(elf) ||
      head.e_shstrndx >= head.e_shnum || !section_at(elf, head, head.e_shstrndx, names) ||
      names.sh_type == SHT_NOBITS || names.sh_type == SHT_NULL)
    return std::nullopt;
  const std::string wanted = ".text." + std::string(kernel);
  for (std::uint32_t i = 0; i < head.e_shnum; ++i) {
    Elf64_Shdr section{};
    (void)section_at(elf, head, i, section);
    if (section.sh_name >= names.sh_size || wanted.size() >= names.sh_size - section.sh_name) continue;
    const char* name = reinterpret_cast<const char*>(elf.data()) + names.sh_offset + section.sh_name;
    if (std::memcmp(name, wanted.c_str(), wanted.size() + 1) == 0) return section.sh_size;
  }
  return std::nullopt;
}

Result<std::vector<CubinVariable>> cubin_variables(std::span<const std::byte> elf) {
  Elf64_Ehdr head{};
  Elf64_Shdr names{};
  if (!read_at(elf, 0, head) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
    return fail(ErrorCode::invalid_data, "the code object is no cubin");
  KLAB_TRY_VOID(check_elf(elf));
  if (head.e_shstrndx >= head.e_shnum || !section_at(elf, head, head.e_shstrndx, names) ||
      names.sh_type == SHT_NOBITS || names.sh_type == SHT_NULL)
    return fail(ErrorCode::invalid_data, "the cubin's sections have no names");
  auto text = [&](const Elf64_Shdr& table, std::uint64_t at) -> std::string {
    if (table.sh_type == SHT_NOBITS || table.sh_type == SHT_NULL || at >= table.sh_size) return {};
    const char* start = reinterpret_cast<const char*>(elf.data()) + table.sh_offset + at;
    return std::string(start, ::strnlen(start, table.sh_size - at));
  };
  std::vector<CubinVariable> out;
  for (std::uint32_t i = 0; i < head.e_shnum; ++i) {
    Elf64_Shdr table{}, strings{};
    (void)section_at(elf, head, i, table);
    if (table.sh_type != SHT_SYMTAB || table.sh_link >= head.e_shnum || !section_at(elf, head, table.sh_link, strings))
      continue;
    for (std::uint64_t at = 0; at + sizeof(Elf64_Sym) <= table.sh_size; at += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol{};
      if (!read_at(elf, table.sh_offset + at, symbol)) break;
      Elf64_Shdr section{};
      if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT || symbol.st_size == 0 || symbol.st_shndx >= head.e_shnum ||
          !section_at(elf, head, symbol.st_shndx, section))
        continue;
      const std::string in = text(names, section.sh_name);
      const bool constant = in.rfind(".nv.constant3", 0) == 0;
      if (constant || in.rfind(".nv.global", 0) == 0)
        out.push_back({text(strings, symbol.st_name), symbol.st_size, constant});
    }
  }
  return out;
}

}  // namespace klab::gpu::cuda
