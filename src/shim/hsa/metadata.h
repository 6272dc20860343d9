// SPDX-License-Identifier: Apache-2.0
// What the shim asks of an AMD GPU code object (ELF): names of its kernels, a kernel's arguments, local
// variables. The bytes are foreign: nothing of them is trusted. Not here: all the rest that they say
// (bundle/hsaco.h).
#pragma once
#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace klab::shim {

struct AmdgpuArgument {
  std::uint32_t offset = 0, size = 0;  // bytes in the kernarg segment
  std::string kind;                    // .value_kind: "by_value", "global_buffer", "hidden_heap_v1"
  bool hidden() const { return kind.rfind("hidden_", 0) == 0; }
};

struct AmdgpuKernel {
  std::string name;                       // mangled, without ".kd"
  std::vector<AmdgpuArgument> arguments;  // ascending
};

struct AmdgpuVariable {
  std::string name;
  bool local = false, writable = false;
};

namespace amdgpu {

constexpr int kMaxDepth = 32;

/// MessagePack, as far as the note uses it. After a failure every call fails.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes)
      : at_(reinterpret_cast<const std::uint8_t*>(bytes.data())), end_(at_ + bytes.size()) {}
  bool ok() const { return ok_; }
  bool map(std::uint64_t& count) { return container(0x80, 0xde, count); }
  bool array(std::uint64_t& count) { return container(0x90, 0xdc, count); }
  bool text(std::string_view& out) {
    std::uint64_t n = 0;
    if (!more()) return false;
    const std::uint8_t tag = *at_;
    if ((tag & 0xe0) == 0xa0)
      n = tag & 0x1f, ++at_;
    else if (tag >= 0xd9 && tag <= 0xdb)
      ++at_, big_endian(1u << (tag - 0xd9), n);
    else
      return fail();
    if (!ok_ || n > left()) return fail();
    out = {reinterpret_cast<const char*>(at_), static_cast<std::size_t>(n)};
    at_ += n;
    return true;
  }
  /// A whole number that is not negative, or a truth value as 0 or 1.
  bool number(std::uint64_t& out) {
    if (!more()) return false;
    const std::uint8_t tag = *at_++;
    if (tag < 0x80) return out = tag, true;
    if (tag == 0xc2 || tag == 0xc3) return out = tag - 0xc2, true;
    if (tag >= 0xcc && tag <= 0xcf) return big_endian(1u << (tag - 0xcc), out);
    if (tag >= 0xd0 && tag <= 0xd3) {
      const unsigned size = 1u << (tag - 0xd0);
      if (!big_endian(size, out)) return false;
      return (out >> (size * 8 - 1)) != 0 ? fail() : true;
    }
    return fail();
  }
  bool skip(int depth = 0) {
    if (depth > kMaxDepth || !more()) return fail();
    const std::uint8_t tag = *at_;
    std::uint64_t n = 0;
    std::string_view text_value;
    if ((tag & 0xf0) == 0x80 || tag == 0xde || tag == 0xdf) {
      if (!map(n)) return false;
      for (std::uint64_t i = 0; i < 2 * n; ++i)
        if (!skip(depth + 1)) return false;
      return true;
    }
    if ((tag & 0xf0) == 0x90 || tag == 0xdc || tag == 0xdd) {
      if (!array(n)) return false;
      for (std::uint64_t i = 0; i < n; ++i)
        if (!skip(depth + 1)) return false;
      return true;
    }
    if ((tag & 0xe0) == 0xa0 || (tag >= 0xd9 && tag <= 0xdb)) return text(text_value);
    ++at_;
    if (tag < 0x80 || tag >= 0xe0 || tag == 0xc0 || tag == 0xc2 || tag == 0xc3) return true;
    if (tag >= 0xc4 && tag <= 0xc6) {
      if (!big_endian(1u << (tag - 0xc4), n)) return false;
    } else if (tag >= 0xc7 && tag <= 0xc9) {
      if (!big_endian(1u << (tag - 0xc7), n)) return false;
      ++n;
    } else if (tag == 0xca || tag == 0xcb) {
      n = tag == 0xca ? 4 : 8;
    } else if (tag >= 0xcc && tag <= 0xd3) {
      n = 1u << ((tag - 0xcc) & 3);
    } else if (tag >= 0xd4 && tag <= 0xd8) {
      n = 1 + (1u << (tag - 0xd4));
    } else {
      return fail();
    }
    if (n > left()) return fail();
    at_ += n;
    return true;
  }

 private:
  std::uint64_t left() const { return static_cast<std::uint64_t>(end_ - at_); }
  bool fail() { return ok_ = false; }
  bool more() { return (ok_ && at_ < end_) || fail(); }
  bool big_endian(unsigned size, std::uint64_t& out) {
    if (!ok_ || left() < size) return fail();
    out = 0;
    for (unsigned i = 0; i < size; ++i) out = out << 8 | *at_++;
    return true;
  }
  bool container(std::uint8_t fix, std::uint8_t sized, std::uint64_t& count) {
    if (!more()) return false;
    const std::uint8_t tag = *at_;
    if ((tag & 0xf0) == fix) return count = tag & 0x0f, ++at_, true;
    if (tag != sized && tag != sized + 1) return fail();
    ++at_;
    return big_endian(tag == sized ? 2 : 4, count);
  }
  const std::uint8_t* at_;
  const std::uint8_t* end_;
  bool ok_ = true;
};

}  // namespace amdgpu

/// A view: the bytes must outlive it.
class AmdgpuCode {
 public:
  explicit AmdgpuCode(std::span<const std::byte> bytes) : bytes_(bytes) {
    const auto header = at<Elf64_Ehdr>(0);
    constexpr std::uint16_t kAmdgpu = 224;
    valid_ = header && std::memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
             header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_ident[EI_DATA] == ELFDATA2LSB &&
             header->e_machine == kAmdgpu;
    if (valid_) header_ = *header;
  }
  bool valid() const { return valid_; }

  /// Calls `use` for each kernel that `wanted` (of the mangled name; empty: every one) accepts. False: the
  /// note does not parse to its end.
  bool each_kernel(const std::function<bool(std::string_view)>& wanted,
                   const std::function<void(AmdgpuKernel&&)>& use) const {
    return top([&](std::string_view key, amdgpu::Reader& r) {
      std::uint64_t count = 0;
      if (key != "amdhsa.kernels") return r.skip();
      if (!r.array(count)) return false;
      for (std::uint64_t i = 0; i < count; ++i) {
        amdgpu::Reader ahead = r;
        std::string_view name;
        if (!members(ahead, [&](std::string_view k, amdgpu::Reader& v) {
              return k == ".name" ? v.text(name) : v.skip();
            }))
          return false;
        if (wanted && !wanted(name)) {
          r = ahead;
          continue;
        }
        AmdgpuKernel kernel;
        if (!read_kernel(r, kernel)) return false;
        use(std::move(kernel));
      }
      return true;
    });
  }
  std::optional<AmdgpuKernel> kernel(std::string_view name) const {
    std::optional<AmdgpuKernel> found;
    each_kernel([&](std::string_view n) { return n == name; },
                [&](AmdgpuKernel&& k) { found = std::move(k); });
    return found;
  }

  /// Data besides kernels' descriptors. Local: no other code object can name it, and the loader knows no
  /// address of it.
  std::vector<AmdgpuVariable> variables() const {
    std::vector<AmdgpuVariable> all;
    for (std::size_t s = 0; s < header_.e_shnum; ++s) {
      const auto section = section_at(s);
      if (!section || (section->sh_type != SHT_SYMTAB && section->sh_type != SHT_DYNSYM)) continue;
      const auto names = section_at(section->sh_link);
      for (std::uint64_t i = 0; names && i < section->sh_size / sizeof(Elf64_Sym); ++i) {
        const auto symbol = at<Elf64_Sym>(section->sh_offset + i * sizeof(Elf64_Sym));
        if (!symbol) break;
        const auto home = section_at(symbol->st_shndx);
        AmdgpuVariable v;
        v.local = ELF64_ST_BIND(symbol->st_info) == STB_LOCAL;
        if (ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT || symbol->st_size == 0 ||
            symbol->st_shndx == SHN_UNDEF || !home || v.local != (section->sh_type == SHT_SYMTAB))
          continue;
        v.name = text_at(*names, symbol->st_name);
        v.writable = (home->sh_flags & SHF_WRITE) != 0;
        if (!v.name.empty() && !v.name.ends_with(".kd")) all.push_back(std::move(v));
      }
    }
    return all;
  }

 private:
  template <class T>
  std::optional<T> at(std::uint64_t offset) const {
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof value);
    return value;
  }
  std::optional<Elf64_Shdr> section_at(std::uint64_t index) const {
    if (!valid_ || index >= header_.e_shnum || header_.e_shentsize != sizeof(Elf64_Shdr) ||
        header_.e_shoff > bytes_.size())
      return std::nullopt;
    return at<Elf64_Shdr>(header_.e_shoff + index * sizeof(Elf64_Shdr));
  }
  std::string text_at(const Elf64_Shdr& table, std::uint32_t offset) const {
    if (table.sh_offset > bytes_.size() || table.sh_size > bytes_.size() - table.sh_offset ||
        offset >= table.sh_size)
      return {};
    const char* from = reinterpret_cast<const char*>(bytes_.data()) + table.sh_offset + offset;
    return std::string(from, ::strnlen(from, table.sh_size - offset));
  }

  // The metadata note's MessagePack; empty: there is none.
  std::span<const std::byte> note() const {
    constexpr std::uint32_t kMetadata = 32;
    if (!valid_ || header_.e_phentsize != sizeof(Elf64_Phdr) || header_.e_phoff > bytes_.size()) return {};
    for (std::size_t i = 0; i < header_.e_phnum; ++i) {
      const auto segment = at<Elf64_Phdr>(header_.e_phoff + i * sizeof(Elf64_Phdr));
      if (!segment) return {};
      if (segment->p_type != PT_NOTE || segment->p_offset > bytes_.size() ||
          segment->p_filesz > bytes_.size() - segment->p_offset)
        continue;
      const std::uint64_t end = segment->p_offset + segment->p_filesz;
      for (std::uint64_t here = segment->p_offset; end - here >= sizeof(Elf64_Nhdr);) {
        const auto n = at<Elf64_Nhdr>(here);
        const std::uint64_t name = here + sizeof *n,
                            content = name + ((std::uint64_t{n->n_namesz} + 3) & ~3ull);
        const std::uint64_t next = content + ((std::uint64_t{n->n_descsz} + 3) & ~3ull);
        if (content > end || n->n_descsz > end - content) break;
        if (n->n_type == kMetadata && n->n_namesz == 7 && std::memcmp(bytes_.data() + name, "AMDGPU", 7) == 0)
          return bytes_.subspan(content, n->n_descsz);
        if (next > end) break;
        here = next;
      }
    }
    return {};
  }

  template <class Use>
  static bool members(amdgpu::Reader& r, Use&& use) {
    std::uint64_t count = 0;
    if (!r.map(count)) return false;
    for (std::uint64_t i = 0; i < count; ++i) {
      std::string_view key;
      if (!r.text(key) || !use(key, r) || !r.ok()) return false;
    }
    return true;
  }
  template <class Use>
  bool top(Use&& use) const {
    amdgpu::Reader r(note());
    return members(r, use);
  }

  static bool narrow(amdgpu::Reader& r, std::uint32_t& out) {
    std::uint64_t value = 0;
    if (!r.number(value) || value > 0xffffffffu) return false;
    out = static_cast<std::uint32_t>(value);
    return true;
  }
  static bool copy(amdgpu::Reader& r, std::string& out) {
    std::string_view text;
    if (!r.text(text)) return false;
    out = text;
    return true;
  }
  static bool read_arguments(amdgpu::Reader& r, std::vector<AmdgpuArgument>& out) {
    std::uint64_t count = 0;
    if (!r.array(count)) return false;
    for (std::uint64_t i = 0; i < count; ++i) {
      AmdgpuArgument a;
      if (!members(r, [&](std::string_view key, amdgpu::Reader& v) {
            if (key == ".offset") return narrow(v, a.offset);
            if (key == ".size") return narrow(v, a.size);
            if (key == ".value_kind") return copy(v, a.kind);
            return v.skip();
          }))
        return false;
      if (!out.empty() && a.offset < std::uint64_t{out.back().offset} + out.back().size) return false;
      out.push_back(std::move(a));
    }
    return true;
  }
  static bool read_kernel(amdgpu::Reader& r, AmdgpuKernel& k) {
    return members(r, [&](std::string_view key, amdgpu::Reader& v) {
      if (key == ".name") return copy(v, k.name);
      if (key == ".args") return read_arguments(v, k.arguments);
      return v.skip();
    });
  }

  std::span<const std::byte> bytes_;
  Elf64_Ehdr header_{};
  bool valid_ = false;
};

}  // namespace klab::shim
