// SPDX-License-Identifier: Apache-2.0
// Sources: LLVM's "User Guide for AMDGPU Backend" (header flags, notes, metadata, kernel descriptors) and clang's
// "Clang Offload Bundler".
#include "bundle/hsaco.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/json.h"
#include "bundle/elf.h"

namespace klab::bundle {
namespace {

constexpr std::string_view kWhat = "AMD GPU code object";
constexpr std::uint32_t kMetadataNote = 32, kOldMetadataNote = 10;
constexpr std::uint8_t kObject = 1, kFunction = 2, kGlobal = 1;
constexpr std::uint16_t kUndefined = 0, kFirstReserved = 0xff00;
constexpr std::size_t kMaxDepth = 16, kMaxEntries = 4096;
constexpr std::string_view kBundleMagic = "__CLANG_OFFLOAD_BUNDLE__", kCompressedMagic = "CCOB";

tl::unexpected<Error> bad(std::string_view what) {
  return fail(ErrorCode::invalid_data, fmt::format("not a usable {}: {}", kWhat, what), "is the file whole?");
}

struct Processor {
  std::uint8_t flag;
  const char* name;
};
// EF_AMDGPU_MACH_*.
constexpr Processor kProcessors[] = {
    {0x20, "gfx600"},  {0x21, "gfx601"},  {0x22, "gfx700"},  {0x23, "gfx701"},  {0x24, "gfx702"},  {0x25, "gfx703"},
    {0x26, "gfx704"},  {0x28, "gfx801"},  {0x29, "gfx802"},  {0x2a, "gfx803"},  {0x2b, "gfx810"},  {0x2c, "gfx900"},
    {0x2d, "gfx902"},  {0x2e, "gfx904"},  {0x2f, "gfx906"},  {0x30, "gfx908"},  {0x31, "gfx909"},  {0x32, "gfx90c"},
    {0x33, "gfx1010"}, {0x34, "gfx1011"}, {0x35, "gfx1012"}, {0x36, "gfx1030"}, {0x37, "gfx1031"}, {0x38, "gfx1032"},
    {0x39, "gfx1033"}, {0x3a, "gfx602"},  {0x3b, "gfx705"},  {0x3c, "gfx805"},  {0x3d, "gfx1035"}, {0x3e, "gfx1034"},
    {0x3f, "gfx90a"},  {0x40, "gfx940"},  {0x41, "gfx1100"}, {0x42, "gfx1013"}, {0x43, "gfx1150"}, {0x44, "gfx1103"},
    {0x45, "gfx1036"}, {0x46, "gfx1101"}, {0x47, "gfx1102"}, {0x48, "gfx1200"}, {0x4a, "gfx1151"}, {0x4b, "gfx941"},
    {0x4c, "gfx942"},  {0x4e, "gfx1201"}, {0x4f, "gfx950"},  {0x55, "gfx1152"}, {0x58, "gfx1153"}};

/// The processor and its features as the header says them; empty: a number that is not known here.
std::string arch_of_flags(std::uint32_t flags, std::uint8_t elf_abi) {
  const auto found = std::find_if(std::begin(kProcessors), std::end(kProcessors),
                                  [&](const Processor& p) { return p.flag == (flags & 0xff); });
  if (found == std::end(kProcessors)) return {};
  std::string arch = found->name;
  if (elf_abi >= 2) {
    const std::uint32_t xnack = flags >> 8 & 3, sramecc = flags >> 10 & 3;
    if (sramecc >= 2) arch += sramecc == 2 ? ":sramecc-" : ":sramecc+";
    if (xnack >= 2) arch += xnack == 2 ? ":xnack-" : ":xnack+";
  } else {
    if ((flags & 0x200) != 0) arch += ":sramecc+";
    if ((flags & 0x100) != 0) arch += ":xnack+";
  }
  return arch;
}

/// nlohmann's reader recurses: what is nested deeper than metadata ever is does not get there.
bool shallow(std::span<const std::byte> bytes) {
  std::vector<std::uint64_t> left{1};  // values that are still to come, by depth
  std::size_t at = 0;
  auto number = [&](std::size_t width, std::uint64_t& value) {
    if (bytes.size() - at < width) return false;
    value = 0;
    for (std::size_t i = 0; i < width; ++i) value = value << 8 | std::to_integer<std::uint8_t>(bytes[at + i]);
    at += width;
    return true;
  };
  auto skip = [&](std::uint64_t size) {
    if (size > bytes.size() - at) return false;
    at += size;
    return true;
  };
  while (!left.empty()) {
    if (left.back() == 0) {
      left.pop_back();
      continue;
    }
    --left.back();
    if (at >= bytes.size()) return false;
    const auto tag = std::to_integer<std::uint8_t>(bytes[at++]);
    std::uint64_t n = 0;
    bool ok = true, container = false;
    if (tag <= 0x7f || tag >= 0xe0 || tag == 0xc0 || tag == 0xc2 || tag == 0xc3) {
    } else if (tag <= 0x8f) {
      n = 2ull * (tag & 0xf), container = true;
    } else if (tag <= 0x9f) {
      n = tag & 0xf, container = true;
    } else if (tag <= 0xbf) {
      ok = skip(tag & 0x1f);
    } else {
      switch (tag) {
        case 0xc4: case 0xd9: ok = number(1, n) && skip(n); break;
        case 0xc5: case 0xda: ok = number(2, n) && skip(n); break;
        case 0xc6: case 0xdb: ok = number(4, n) && skip(n); break;
        case 0xc7: ok = number(1, n) && skip(n + 1); break;
        case 0xc8: ok = number(2, n) && skip(n + 1); break;
        case 0xc9: ok = number(4, n) && skip(n + 1); break;
        case 0xcc: case 0xd0: ok = skip(1); break;
        case 0xcd: case 0xd1: ok = skip(2); break;
        case 0xca: case 0xce: case 0xd2: ok = skip(4); break;
        case 0xcb: case 0xcf: case 0xd3: ok = skip(8); break;
        case 0xd4: case 0xd5: case 0xd6: case 0xd7: case 0xd8: ok = skip((1ull << (tag - 0xd4)) + 1); break;
        case 0xdc: ok = number(2, n), container = true; break;
        case 0xdd: ok = number(4, n), container = true; break;
        case 0xde: ok = number(2, n), n *= 2, container = true; break;
        case 0xdf: ok = number(4, n), n *= 2, container = true; break;
        default: ok = false;
      }
    }
    if (!ok) return false;
    if (container) {
      if (n > bytes.size() - at || left.size() >= kMaxDepth) return false;  // each value is a byte at least
      left.push_back(n);
    }
  }
  return true;
}

Result<std::span<const std::byte>> metadata_note(const Elf& elf) {
  bool old = false;
  for (const ElfSection& s : elf.sections) {
    if (s.type != kSectionNote) continue;
    std::span<const std::byte> rest = s.bytes;
    while (rest.size() >= 12) {
      const std::uint64_t name = word_at<std::uint32_t>(rest, 0), size = word_at<std::uint32_t>(rest, 4);
      const auto type = word_at<std::uint32_t>(rest, 8);
      const std::uint64_t at = 12 + (name + 3) / 4 * 4;
      if (at > rest.size() || size > rest.size() - at) return bad("a note is cut short");
      const std::string_view vendor(reinterpret_cast<const char*>(rest.data()) + 12, name);
      if (type == kMetadataNote && vendor == std::string_view("AMDGPU\0", 7)) return rest.subspan(at, size);
      old = old || (type == kOldMetadataNote && vendor == std::string_view("AMD\0", 4));
      rest = rest.subspan(std::min<std::uint64_t>(rest.size(), at + (size + 3) / 4 * 4));
    }
  }
  if (old)
    return fail(ErrorCode::unsupported, "the code object is of version 2, whose metadata Klab does not read",
                "build it with -mcode-object-version=4 or later");
  return bad("it has no metadata note");
}

std::optional<std::uint32_t> figure(const Json& k, const char* name) {
  std::optional<std::uint32_t> out;
  if (const auto it = k.find(name); it != k.end()) {
    std::uint32_t value = 0;
    read_optional(k, name, value);
    out = value;
  }
  return out;
}

HsacoKernel kernel_of(const Json& k) {
  HsacoKernel out;
  read_required(k, ".name", out.name);
  read_required(k, ".symbol", out.symbol);
  read_optional(k, ".kernarg_segment_size", out.kernarg_bytes);
  read_optional(k, ".kernarg_segment_align", out.kernarg_alignment);
  read_optional(k, ".group_segment_fixed_size", out.shared_bytes);
  read_optional(k, ".private_segment_fixed_size", out.scratch_bytes);
  read_optional(k, ".wavefront_size", out.wavefront_size);
  read_optional(k, ".max_flat_workgroup_size", out.max_block_threads);
  read_optional(k, ".uses_dynamic_stack", out.dynamic_stack);
  if (const auto it = k.find(".reqd_workgroup_size"); it != k.end() && it->is_array() && it->size() == 3)
    for (std::size_t i = 0; i < 3; ++i) out.required_block[i] = (*it)[i].get<std::uint32_t>();
  if (const auto mode = figure(k, ".workgroup_processor_mode")) out.workgroup_processor_mode = *mode != 0;
  out.scalar_registers = figure(k, ".sgpr_count");
  out.vector_registers = figure(k, ".vgpr_count");
  out.accumulation_registers = figure(k, ".agpr_count");
  out.scalar_spills = figure(k, ".sgpr_spill_count");
  out.vector_spills = figure(k, ".vgpr_spill_count");
  if (const auto it = k.find(".args"); it != k.end())
    for (const Json& a : *it) {
      HsacoArgument argument;
      read_required(a, ".offset", argument.offset);
      read_required(a, ".size", argument.size);
      read_required(a, ".value_kind", argument.kind);
      read_optional(a, ".name", argument.name);
      read_optional(a, ".type_name", argument.type_name);
      if (std::uint64_t{argument.offset} + argument.size > out.kernarg_bytes)
        throw std::runtime_error(out.name + ": an argument leaves the kernarg segment");
      out.arguments.push_back(std::move(argument));
    }
  std::stable_sort(out.arguments.begin(), out.arguments.end(),
                   [](const HsacoArgument& a, const HsacoArgument& b) { return a.offset < b.offset; });
  return out;
}

Status read_metadata(std::span<const std::byte> note, Hsaco& out) {
  if (!shallow(note)) return bad("its metadata is damaged");
  try {
    const auto* begin = reinterpret_cast<const std::uint8_t*>(note.data());
    const Json all = Json::from_msgpack(begin, begin + note.size());
    if (!all.is_object()) return bad("its metadata is no map");
    read_optional(all, "amdhsa.target", out.target);
    if (const auto it = all.find("amdhsa.printf"); it != all.end())
      out.printf_formats = it->get<std::vector<std::string>>();
    if (const auto it = all.find("amdhsa.kernels"); it != all.end())
      for (const Json& k : *it) out.kernels.push_back(kernel_of(k));
  } catch (const std::exception& e) {
    return bad(fmt::format("its metadata: {}", e.what()));
  }
  return {};
}

std::uint64_t in_section(const ElfSymbol& s, std::uint64_t section_address) {
  return s.value >= section_address ? s.value - section_address : ~0ull;
}

void read_symbols(const Elf& elf, Hsaco& out) {
  for (const ElfSymbol& s : elf.symbols) {
    if (s.name.empty()) continue;
    if (s.section == kUndefined) {
      if (s.binding == kGlobal) out.undefined.emplace_back(s.name);
      continue;
    }
    if (s.section >= kFirstReserved || s.section >= elf.sections.size()) continue;
    const ElfSection& section = elf.sections[s.section];
    if (s.type == kFunction) {
      for (HsacoKernel& k : out.kernels)
        if (k.name == s.name) {
          k.code_bytes = s.size;
          const std::uint64_t at = in_section(s, section.address);
          if (at <= section.bytes.size() && s.size <= section.bytes.size() - at)
            k.code = section.bytes.subspan(at, s.size);
        }
    } else if (s.type == kObject && s.size != 0 && s.binding == kGlobal &&
               std::none_of(out.kernels.begin(), out.kernels.end(),
                            [&](const HsacoKernel& k) { return k.symbol == s.name; })) {
      out.variables.push_back({std::string(s.name), s.size, (section.flags & kSectionWritable) == 0});
    }
  }
}

}  // namespace

std::uint32_t HsacoKernel::explicit_bytes() const {
  std::uint32_t end = 0;
  for (const HsacoArgument& a : arguments)
    if (!a.hidden()) end = std::max(end, a.offset + a.size);
  return end;
}

const HsacoArgument* HsacoKernel::hidden(std::string_view kind) const {
  for (const HsacoArgument& a : arguments)
    if (a.kind == kind) return &a;
  return nullptr;
}

const HsacoKernel* Hsaco::kernel(std::string_view name) const {
  for (const HsacoKernel& k : kernels)
    if (k.name == name || k.symbol == name) return &k;
  return nullptr;
}

bool looks_like_hsaco(std::span<const std::byte> bytes) {
  return bytes.size() >= 64 && std::memcmp(bytes.data(), "\x7f" "ELF", 4) == 0 &&
         word_at<std::uint16_t>(bytes, 18) == kElfMachineAmdGpu;
}

bool looks_like_offload_bundle(std::span<const std::byte> bytes) {
  auto starts = [&](std::string_view magic) {
    return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
  };
  return starts(kBundleMagic) || starts(kCompressedMagic);
}

Result<Hsaco> read_hsaco(std::span<const std::byte> bytes) {
  KLAB_TRY(const Elf elf, read_elf(bytes, kElfMachineAmdGpu, kWhat, kSectionDynamicSymbols));
  Hsaco out;
  out.abi_version = elf.abi_version + 2;
  KLAB_TRY(const auto note, metadata_note(elf));
  KLAB_TRY_VOID(read_metadata(note, out));
  constexpr std::string_view kTriple = "amdgcn-amd-amdhsa--";
  if (out.target.starts_with(kTriple)) out.arch = out.target.substr(kTriple.size());
  if (out.arch.empty()) {
    out.arch = arch_of_flags(elf.flags, elf.abi_version);
    if (out.target.empty() && !out.arch.empty()) out.target = std::string(kTriple) + out.arch;
  }
  read_symbols(elf, out);
  return out;
}

Result<std::vector<OffloadEntry>> read_offload_bundle(std::span<const std::byte> bytes) {
  if (bytes.size() >= 4 && std::memcmp(bytes.data(), kCompressedMagic.data(), 4) == 0)
    return fail(ErrorCode::unsupported, "the offload bundle is compressed, which Klab does not read",
                "build with --no-offload-compress, or take it apart with clang-offload-bundler");
  if (!looks_like_offload_bundle(bytes) || bytes.size() < kBundleMagic.size() + 8)
    return fail(ErrorCode::invalid_data, "not a clang offload bundle");
  const auto count = word_at<std::uint64_t>(bytes, kBundleMagic.size());
  if (count > kMaxEntries) return fail(ErrorCode::invalid_data, fmt::format("an offload bundle of {} entries", count));
  std::vector<OffloadEntry> out;
  std::uint64_t at = kBundleMagic.size() + 8;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (bytes.size() - at < 24) return fail(ErrorCode::invalid_data, "the offload bundle's list is cut short");
    const auto offset = word_at<std::uint64_t>(bytes, at), size = word_at<std::uint64_t>(bytes, at + 8),
               length = word_at<std::uint64_t>(bytes, at + 16);
    at += 24;
    if (length > bytes.size() - at || offset > bytes.size() || size > bytes.size() - offset)
      return fail(ErrorCode::invalid_data, fmt::format("entry {} of the offload bundle is outside the file", i));
    OffloadEntry entry;
    entry.id.assign(reinterpret_cast<const char*>(bytes.data()) + at, length);
    entry.bytes = bytes.subspan(offset, size);
    at += length;
    // "hipv4-amdgcn-amd-amdhsa--gfx1030"; older ones have one dash before the processor.
    if (const std::size_t gfx = entry.id.find("-gfx"); gfx != std::string::npos) entry.arch = entry.id.substr(gfx + 1);
    out.push_back(std::move(entry));
  }
  return out;
}

bool arch_fits(std::string_view code, std::string_view device) {
  auto next = [](std::string_view& text) {
    const std::size_t colon = std::min(text.find(':'), text.size());
    const std::string_view word = text.substr(0, colon);
    text.remove_prefix(std::min(text.size(), colon + 1));
    return word;
  };
  if (next(code) != next(device)) return false;
  while (!code.empty()) {
    const std::string_view feature = next(code);
    std::string_view rest = device;
    bool found = false;
    while (!rest.empty()) found = next(rest) == feature || found;
    if (!found) return false;
  }
  return true;
}

Result<std::span<const std::byte>> hsaco_for(std::span<const std::byte> bytes, std::string_view device_arch) {
  if (!looks_like_offload_bundle(bytes)) {
    if (!looks_like_hsaco(bytes)) return bad("neither an ELF file for AMD GPUs nor a clang offload bundle");
    return bytes;
  }
  KLAB_TRY(const auto entries, read_offload_bundle(bytes));
  const OffloadEntry* best = nullptr;
  std::string there;
  for (const OffloadEntry& e : entries) {
    if (e.arch.empty()) continue;
    there += fmt::format("{}{}", there.empty() ? "" : ", ", e.arch);
    // The longer name says more of what it was built for.
    if (arch_fits(e.arch, device_arch) && (best == nullptr || e.arch.size() > best->arch.size())) best = &e;
  }
  if (best == nullptr)
    return fail(ErrorCode::unsupported,
                fmt::format("the offload bundle has no code for {}; it has {}", device_arch,
                            there.empty() ? "none for a GPU" : there),
                fmt::format("build with --offload-arch={}", device_arch.substr(0, device_arch.find(':'))));
  return best->bytes;
}

}  // namespace klab::bundle
