// SPDX-License-Identifier: Apache-2.0
// The attribute numbers are those that cuobjdump prints the names of (EIATTR_*); the header flags are in
// LLVM's BinaryFormat/ELF.h (EF_CUDA_*).
#include "compile/cubin/cubin.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <unordered_map>

#include <fmt/format.h>

#include "base/hash.h"
#include "bundle/elf.h"

namespace klab::compile {

using bundle::Elf;
using bundle::ElfSection;
using bundle::ElfSymbol;
using bundle::kElfMachineCuda;
using bundle::kSectionNoBits;
using bundle::word_at;

namespace {

constexpr std::uint32_t kSectionInfo = 0x70000000;  // SHT_CUDA_INFO
constexpr std::uint8_t kFunction = 2, kObject = 1;  // STT_FUNC, STT_OBJECT
constexpr std::uint8_t kEntry = 0x10;               // STO_CUDA_ENTRY
constexpr std::uint8_t kManaged = 0x04;             // STO_CUDA_MANAGED
constexpr std::uint64_t kReservedShared = 1024;     // in .nv.shared.KERNEL from compute capability 9.0 on
constexpr std::size_t kMaxParameters = 65536;

enum Attribute : std::uint8_t {
  max_threads = 0x05,
  param_cbank = 0x0a,
  required_threads = 0x10,
  frame_size = 0x11,
  min_stack_size = 0x12,
  parameter = 0x17,
  param_bytes = 0x19,
  max_register_count = 0x1b,
  cooperative_instructions = 0x28,
  register_count = 0x2f,
  cluster_blocks = 0x3d,
  parameter_v2 = 0x45,
  barrier_count = 0x4c,
};

struct Item {
  std::uint8_t attribute = 0;
  std::span<const std::byte> value;
};

// Format 4 has a size of two bytes and that many bytes; the others have two bytes of value, used or not.
std::vector<Item> items_of(std::span<const std::byte> bytes) {
  std::vector<Item> items;
  while (bytes.size() >= 4) {
    const auto format = word_at<std::uint8_t>(bytes, 0);
    const std::size_t size = format == 4 ? word_at<std::uint16_t>(bytes, 2) : 0;
    if (size > bytes.size() - 4) break;
    items.push_back(
        {word_at<std::uint8_t>(bytes, 1), format == 4 ? bytes.subspan(4, size) : bytes.subspan(2, 2)});
    bytes = bytes.subspan(4 + size);
  }
  return items;
}

void read_dim(std::span<const std::byte> value, std::array<std::uint32_t, 3>& out) {
  if (value.size() >= 12)
    for (std::size_t i = 0; i < 3; ++i) out[i] = word_at<std::uint32_t>(value, 4 * i);
}

void read_kernel_info(std::span<const std::byte> bytes, KernelFacts& k) {
  std::vector<std::pair<std::uint16_t, KernelParameter>> parameters;
  for (const auto& [attribute, value] : items_of(bytes)) {
    switch (attribute) {
      case Attribute::max_threads:
        read_dim(value, k.max_block);
        break;
      case Attribute::required_threads:
        read_dim(value, k.required_block);
        break;
      case Attribute::cluster_blocks:
        read_dim(value, k.cluster);
        break;
      case Attribute::param_bytes:
        k.parameter_bytes = word_at<std::uint16_t>(value, 0);
        break;
      case Attribute::max_register_count:
        k.max_registers = word_at<std::uint16_t>(value, 0);
        break;
      case Attribute::barrier_count:
        k.barriers = word_at<std::uint8_t>(value, 0);
        break;
      case Attribute::cooperative_instructions:
        k.cooperative = true;
        break;
      case Attribute::parameter:
      case Attribute::parameter_v2: {
        if (value.size() < 12 || parameters.size() >= kMaxParameters) break;
        const auto last = word_at<std::uint32_t>(value, 8);
        // The first form keeps the size above 18 bits of alignment and bank, the second in 16 bits of its
        // own.
        const std::uint32_t size = attribute == Attribute::parameter ? last >> 18 : last & 0xffff;
        parameters.emplace_back(word_at<std::uint16_t>(value, 4),
                                KernelParameter{word_at<std::uint16_t>(value, 6), size});
        break;
      }
      default:
        break;
    }
  }
  std::sort(parameters.begin(), parameters.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  k.parameters.emplace();
  for (const auto& [ordinal, p] : parameters) k.parameters->push_back(p);
}

// .nv.info: figures of functions, by symbol number.
void read_module_info(std::span<const std::byte> bytes,
                      std::unordered_map<std::uint32_t, KernelFacts*>& by_symbol) {
  for (const auto& [attribute, value] : items_of(bytes)) {
    if (value.size() < 8) continue;
    const auto found = by_symbol.find(word_at<std::uint32_t>(value, 0));
    if (found == by_symbol.end()) continue;
    const auto number = word_at<std::uint32_t>(value, 4);
    if (attribute == Attribute::register_count) found->second->registers = number;
    if (attribute == Attribute::frame_size) found->second->local_bytes = number;
    if (attribute == Attribute::min_stack_size) found->second->min_stack_bytes = number;
  }
}

// Texts of the tool note: after the NVIDIA header five words, then name, version, build and options, each
// ended by 0.
void read_tool_note(std::span<const std::byte> note, CudaFacts& facts) {
  const std::string_view text(reinterpret_cast<const char*>(note.data()), note.size());
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\0', at), text.size());
    if (end > at) parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::string_view part = parts[i];
    if (part.starts_with("Cuda compilation tools") && i > 0)
      facts.made_by = fmt::format("{}, {}", parts[i - 1], part);
    if (part.find("-arch ") != std::string_view::npos) {
      while (!part.empty() && part.back() == ' ') part.remove_suffix(1);
      while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
      facts.made_with = part;
    }
  }
}

// The suffix of the architecture: it says on which devices the code runs.
std::string suffix_of(const Elf& elf, std::uint32_t number, const std::string& made_with) {
  if (const auto at = made_with.find(fmt::format("-arch sm_{}", number)); at != std::string::npos) {
    const std::size_t next = at + fmt::format("-arch sm_{}", number).size();
    if (next < made_with.size() && (made_with[next] == 'a' || made_with[next] == 'f'))
      return {made_with[next]};
  }
  // .nv.compat: items of (format, attribute, value); attribute 9 is 1 for code of one architecture only.
  if (const ElfSection* compat = elf.section(".nv.compat"))
    for (std::size_t at = 0; at + 3 <= compat->bytes.size();) {
      const auto format = word_at<std::uint8_t>(compat->bytes, at),
                 attribute = word_at<std::uint8_t>(compat->bytes, at + 1),
                 value = word_at<std::uint8_t>(compat->bytes, at + 2);
      if (format != 2 && format != 3) break;
      if (attribute == 9) return value == 1 ? "a" : "";
      at += format == 2 ? 3 : 4;
    }
  const std::uint32_t accelerators = elf.abi_version >= 8 ? 0x8 : 0x800;
  return (elf.flags & accelerators) != 0 ? "a" : "";
}

bool is_variable_section(std::string_view name) {
  return name == ".nv.global" || name == ".nv.global.init" || name == ".nv.constant3" ||
         name.starts_with(".nv.constant3.") || name.starts_with(".nv.global.");
}

bool has_content(const ElfSection& section, const ElfSymbol& symbol) {
  if (symbol.value > section.bytes.size() || symbol.size > section.bytes.size() - symbol.value) return false;
  const auto bytes = section.bytes.subspan(symbol.value, symbol.size);
  return std::any_of(bytes.begin(), bytes.end(), [](std::byte b) { return b != std::byte{0}; });
}

}  // namespace

bool looks_like_cubin(std::span<const std::byte> bytes) {
  return bytes.size() >= 64 &&
         std::memcmp(bytes.data(),
                     "\x7f"
                     "ELF",
                     4) == 0 &&
         word_at<std::uint16_t>(bytes, 18) == kElfMachineCuda;
}

Result<CudaFacts> read_cubin(std::span<const std::byte> bytes) {
  KLAB_TRY(const Elf elf, bundle::read_elf(bytes, kElfMachineCuda, "cubin"));
  if (const auto type = word_at<std::uint16_t>(bytes, 16); type == 1)
    return fail(ErrorCode::unsupported,
                "a relocatable CUDA object (built with -rdc=true) has no loadable code yet",
                "link it first: nvcc -dlink -cubin");
  CudaFacts facts;
  facts.format = "cubin";
  if (const ElfSection* note = elf.section(".note.nv.tkinfo")) read_tool_note(note->bytes, facts);
  const std::uint32_t number = elf.abi_version >= 8 ? (elf.flags >> 8) & 0xff : elf.flags & 0xff;
  facts.arch = fmt::format("sm_{}{}", number, suffix_of(elf, number, facts.made_with));

  std::unordered_map<std::string_view, const ElfSection*> sections;
  for (const ElfSection& s : elf.sections) sections.emplace(s.name, &s);
  const auto find = [&](const std::string& name) {
    const auto found = sections.find(name);
    return found == sections.end() ? nullptr : found->second;
  };
  std::vector<std::uint32_t> symbol_of;
  for (std::uint32_t i = 0; i < elf.symbols.size(); ++i) {
    const ElfSymbol& symbol = elf.symbols[i];
    if (symbol.name.empty()) continue;
    if (symbol.section == 0) {
      if ((symbol.type == kFunction || symbol.type == kObject) && !symbol.name.starts_with(".nv"))
        facts.undefined.emplace_back(symbol.name);
      continue;
    }
    if (symbol.section >= elf.sections.size()) continue;  // absolute and other reserved numbers
    const ElfSection& section = elf.sections[symbol.section];
    if (symbol.type == kFunction && (symbol.other & kEntry) != 0) {
      KernelFacts k;
      k.name = symbol.name;
      k.demangled = demangle(k.name);
      k.code_bytes = symbol.size != 0 ? symbol.size : section.size;
      if (const ElfSection* s = find(".nv.shared." + k.name)) {
        k.shared_bytes = s->size;
        if (number >= 90 && k.shared_bytes >= kReservedShared && find(".nv.shared.reserved.0") != nullptr)
          k.shared_bytes -= kReservedShared;
      }
      k.code_hash = to_string(hash_bytes(section.bytes));
      if (const ElfSection* s = find(".nv.constant0." + k.name)) k.constant_bytes = s->size;
      if (const ElfSection* s = find(".nv.info." + k.name); s != nullptr && s->type == kSectionInfo)
        read_kernel_info(s->bytes, k);
      // Before CUDA 12 the register count was in the section's own header.
      if (section.info >> 24 != 0) k.registers = section.info >> 24;
      facts.kernels.push_back(std::move(k));
      symbol_of.push_back(i);
    } else if (symbol.type == kObject && is_variable_section(section.name)) {
      const bool constant = section.name.starts_with(".nv.constant");
      const bool managed = (symbol.other & kManaged) != 0;
      facts.variables.push_back({std::string(symbol.name),
                                 constant  ? "constant"
                                 : managed ? "managed"
                                           : "global",
                                 symbol.size, has_content(section, symbol)});
    }
  }
  std::unordered_map<std::uint32_t, KernelFacts*> by_symbol;
  for (std::size_t i = 0; i < facts.kernels.size(); ++i) by_symbol[symbol_of[i]] = &facts.kernels[i];
  if (const ElfSection* s = find(".nv.info"); s != nullptr && s->type == kSectionInfo)
    read_module_info(s->bytes, by_symbol);
  return facts;
}

Result<std::string> embedded_ptx(std::span<const std::byte> bytes) {
  KLAB_TRY(const Elf elf, bundle::read_elf(bytes, kElfMachineCuda, "cubin"));
  const ElfSection* section = elf.section(".nv_debug_ptx_txt");
  if (section == nullptr || section->bytes.empty())
    return fail(ErrorCode::not_found, "the cubin carries no PTX", "only code built with -lineinfo does");
  // One line after the other, each ended by a zero.
  std::string text(reinterpret_cast<const char*>(section->bytes.data()), section->bytes.size());
  std::replace(text.begin(), text.end(), '\0', '\n');
  const std::size_t first = text.find_first_not_of('\n');
  if (first == std::string::npos) return fail(ErrorCode::not_found, "the cubin carries no PTX");
  text.erase(0, first);
  return text;
}

void read_spills(std::string_view log, CudaFacts& facts) {
  KernelFacts* current = nullptr;
  const auto number_before = [](std::string_view line,
                                std::string_view words) -> std::optional<std::uint64_t> {
    const std::size_t at = line.find(words);
    if (at == std::string_view::npos) return std::nullopt;
    std::size_t begin = at;
    while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
    std::uint64_t value = 0;
    if (std::from_chars(line.data() + begin, line.data() + at, value).ec != std::errc()) return std::nullopt;
    return value;
  };
  while (!log.empty()) {
    const std::size_t end = std::min(log.find('\n'), log.size());
    const std::string_view line = log.substr(0, end);
    log.remove_prefix(std::min(end + 1, log.size()));
    static constexpr std::string_view kName = "Function properties for ";
    if (const std::size_t at = line.find(kName); at != std::string_view::npos) {
      std::string_view name = line.substr(at + kName.size());
      while (!name.empty() && (name.back() == ' ' || name.back() == '\r')) name.remove_suffix(1);
      current = nullptr;
      for (KernelFacts& k : facts.kernels)
        if (k.name == name) current = &k;
    } else if (current != nullptr && line.find("bytes spill stores") != std::string_view::npos) {
      current->spill_store_bytes = number_before(line, " bytes spill stores");
      current->spill_load_bytes = number_before(line, " bytes spill loads");
      current = nullptr;
    }
  }
}

}  // namespace klab::compile
