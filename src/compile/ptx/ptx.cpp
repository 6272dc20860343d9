// SPDX-License-Identifier: Apache-2.0
#include "compile/ptx/ptx.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <vector>

#include <fmt/format.h>

namespace klab::compile {
namespace {

using Tokens = std::vector<std::string_view>;
constexpr std::size_t kMaxTokens = 4'000'000;

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' ||
         c == '.' || c == '%';
}

// Words and single punctuation characters; comments and strings are passed over. Bodies of functions are one
// "{}" each.
Tokens tokens_of(std::string_view text) {
  Tokens tokens;
  int depth = 0;
  for (std::size_t i = 0; i < text.size() && tokens.size() < kMaxTokens;) {
    const char c = text[i];
    if (text.substr(i, 2) == "//") {
      i = std::min(text.find('\n', i), text.size());
    } else if (text.substr(i, 2) == "/*") {
      const std::size_t end = text.find("*/", i + 2);
      i = end == std::string_view::npos ? text.size() : end + 2;
    } else if (c == '"') {
      const std::size_t end = text.find('"', i + 1);
      i = end == std::string_view::npos ? text.size() : end + 1;
    } else if (c == '{') {
      if (depth++ == 0) tokens.push_back(text.substr(i, 1));
      ++i;
    } else if (c == '}') {
      if (depth > 0 && --depth == 0) tokens.push_back(text.substr(i, 1));
      ++i;
    } else if (depth > 0) {
      ++i;
    } else if (is_word(c)) {
      std::size_t end = i + 1;
      while (end < text.size() && is_word(text[end])) ++end;
      tokens.push_back(text.substr(i, end - i));
      i = end;
    } else {
      if (c != ' ' && c != '\t' && c != '\n' && c != '\r') tokens.push_back(text.substr(i, 1));
      ++i;
    }
  }
  return tokens;
}

template <class T>
bool number(std::string_view text, T& out) {
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), out);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
}

std::uint32_t size_of_type(std::string_view type) {
  static const std::map<std::string_view, std::uint32_t> kSizes{
      {".b8", 1},    {".u8", 1},     {".s8", 1},         {".b16", 2},    {".u16", 2}, {".s16", 2},
      {".f16", 2},   {".bf16", 2},   {".b32", 4},        {".u32", 4},    {".s32", 4}, {".f32", 4},
      {".f16x2", 4}, {".bf16x2", 4}, {".b64", 8},        {".u64", 8},    {".s64", 8}, {".f64", 8},
      {".b128", 16}, {".texref", 8}, {".samplerref", 8}, {".surfref", 8}};
  const auto found = kSizes.find(type);
  return found == kSizes.end() ? 0 : found->second;
}

// A declaration between `from` and `to`: [.space] [.align N] .type [.ptr ...] name[count]...
struct Declared {
  std::string name;
  std::uint64_t size = 0;
  std::uint32_t align = 1;
};
Declared declaration(const Tokens& t, std::size_t from, std::size_t to) {
  Declared d;
  std::uint32_t each = 0;
  std::uint64_t count = 1, lanes = 1;
  bool pointer = false;
  for (std::size_t i = from; i < to; ++i) {
    if (t[i] == ".ptr") pointer = true;
    if (t[i] == ".v2") lanes = 2;
    if (t[i] == ".v4") lanes = 4;
    // After .ptr the alignment is that of what is pointed to.
    if (t[i] == ".align" && i + 1 < to) {
      if (!pointer) (void)number(t[i + 1], d.align);
      ++i;
    } else if (const std::uint32_t size = size_of_type(t[i]); size != 0) {
      each = size;
    } else if (t[i] == "[") {
      std::uint64_t n = 0;
      if (i + 1 < to && number(t[i + 1], n) && n < (1ull << 40) && count < (1ull << 20)) count *= n;
    } else if (t[i] == "=") {
      break;
    } else if (!t[i].empty() && t[i][0] != '.' && is_word(t[i][0]) && (t[i][0] < '0' || t[i][0] > '9')) {
      if (d.name.empty()) d.name = t[i];
    } else if (t[i] == "(") {  // .attribute(.managed)
      while (i < to && t[i] != ")") ++i;
    }
  }
  d.size = each * lanes * count;
  if (d.align <= 1 && each != 0) d.align = static_cast<std::uint32_t>(each * lanes);
  return d;
}

void read_three(const Tokens& t, std::size_t at, std::array<std::uint32_t, 3>& out) {
  out = {1, 1, 1};
  for (std::size_t i = 0; i < 3 && at < t.size(); ++i) {
    if (!number(t[at], out[i])) break;
    if (at + 1 >= t.size() || t[at + 1] != ",") break;
    at += 2;
  }
}

// Parameters between parentheses, and what follows up to the body. Returns where the body or the ";" is.
std::size_t read_entry(const Tokens& t, std::size_t at, KernelFacts& k) {
  k.parameters.emplace();
  std::uint64_t offset = 0;
  if (at < t.size() && t[at] == "(") {
    std::size_t from = ++at;
    int depth = 1;
    for (; at < t.size() && depth > 0; ++at) {
      if (t[at] == "(") ++depth;
      if (t[at] == ")") --depth;
      if ((depth == 1 && t[at] == ",") || depth == 0) {
        const Declared d = declaration(t, from, at);
        if (d.size > 0 && d.size < (1u << 20) && d.align > 0 && d.align <= 4096) {
          offset = (offset + d.align - 1) / d.align * d.align;
          k.parameters->push_back({static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(d.size)});
          offset += d.size;
        }
        if (offset > (1u << 24)) break;
        from = at + 1;
      }
    }
  }
  k.parameter_bytes = static_cast<std::uint32_t>(offset);
  for (; at < t.size() && t[at] != "{" && t[at] != ";"; ++at) {
    if (t[at] == ".maxntid") read_three(t, at + 1, k.max_block);
    if (t[at] == ".reqntid") read_three(t, at + 1, k.required_block);
    if (t[at] == ".reqnctapercluster") read_three(t, at + 1, k.cluster);
    std::uint32_t n = 0;
    if (t[at] == ".maxnreg" && at + 1 < t.size() && number(t[at + 1], n)) k.max_registers = n;
  }
  return at;
}

}  // namespace

Result<CudaFacts> read_ptx(std::string_view text) {
  while (!text.empty() && text.back() == '\0') text.remove_suffix(1);
  if (text.find('\0') != std::string_view::npos)
    return fail(ErrorCode::invalid_data, "not PTX: it holds zero bytes", "a cubin is named .cubin");
  const Tokens t = tokens_of(text);
  CudaFacts facts;
  facts.format = "ptx";
  for (std::size_t i = 0; i < t.size(); ++i) {
    if (t[i] == ".version" && i + 1 < t.size()) facts.ptx_version = t[i + 1];
    if (t[i] == ".target" && i + 1 < t.size()) facts.arch = t[i + 1];
    if (t[i] == ".entry" && i + 1 < t.size()) {
      KernelFacts k;
      k.name = t[i + 1];
      k.demangled = demangle(k.name);
      i = read_entry(t, i + 2, k);
      // A declaration without a body is no kernel.
      if (i < t.size() && t[i] == "{") facts.kernels.push_back(std::move(k));
    } else if (t[i] == ".global" || t[i] == ".const") {
      std::size_t end = i;
      bool initialised = false, managed = false, foreign = i > 0 && t[i - 1] == ".extern";
      for (; end < t.size() && t[end] != ";"; ++end) {
        initialised = initialised || t[end] == "=";
        managed = managed || t[end] == ".managed";
      }
      const Declared d = declaration(t, i + 1, end);
      if (!d.name.empty() && foreign)
        facts.undefined.push_back(d.name);
      else if (!d.name.empty())
        facts.variables.push_back({d.name,
                                   t[i] == ".const" ? "constant"
                                   : managed        ? "managed"
                                                    : "global",
                                   d.size, initialised});
      i = end;
    }
  }
  if (facts.ptx_version.empty() || facts.arch.empty())
    return fail(ErrorCode::invalid_data, "not PTX: it has no .version or no .target");
  return facts;
}

std::optional<SourceLine> source_of_ptx_line(std::string_view text, std::uint32_t line) {
  std::map<std::uint32_t, std::string> files;
  std::uint32_t file = 0, at = 0, now = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view one = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++now;
    while (!one.empty() && (one.front() == ' ' || one.front() == '\t')) one.remove_prefix(1);
    const auto take = [&](std::uint32_t& out) {
      while (!one.empty() && (one.front() == ' ' || one.front() == '\t')) one.remove_prefix(1);
      const auto parsed = std::from_chars(one.data(), one.data() + one.size(), out);
      one.remove_prefix(static_cast<std::size_t>(parsed.ptr - one.data()));
      return parsed.ec == std::errc();
    };
    if (one.starts_with(".loc") && now <= line) {
      one.remove_prefix(4);
      std::uint32_t f = 0, l = 0;
      if (take(f) && take(l)) file = f, at = l;
    } else if (one.starts_with(".file")) {  // the table stands after the code
      one.remove_prefix(5);
      std::uint32_t f = 0;
      if (!take(f)) continue;
      const std::size_t open = one.find('"'), close = one.rfind('"');
      if (open != std::string_view::npos && close > open) files[f] = one.substr(open + 1, close - open - 1);
    }
  }
  if (at == 0 || files.count(file) == 0) return std::nullopt;
  return SourceLine{files[file], at};
}

}  // namespace klab::compile
