// SPDX-License-Identifier: Apache-2.0
#include "compile/cuda/make_rule.h"

#include <fmt/format.h>

#include "base/hash.h"

namespace klab::compile {
namespace {

constexpr std::uint64_t kMaxSource = 256u << 20;

// A make rule: "out : a.cu \\\n b.h c\\ d.h".
std::vector<std::string> files_of_rule(std::string_view rule) {
  std::vector<std::string> files;
  const std::size_t colon = rule.find(" :") != std::string_view::npos ? rule.find(" :") + 1 : rule.find(':');
  if (colon == std::string_view::npos) return files;
  std::string name;
  const auto flush = [&] {
    if (!name.empty()) files.push_back(std::move(name));
    name.clear();
  };
  for (std::size_t i = colon + 1; i < rule.size(); ++i) {
    const char c = rule[i];
    if (c == '\\' && i + 1 < rule.size()) {
      const char next = rule[++i];
      if (next == '\n' || next == '\r')
        flush();
      else
        name += next;
    } else if (c == '$' && i + 1 < rule.size() && rule[i + 1] == '$') {
      name += rule[++i];
    } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      flush();
    } else {
      name += c;
    }
  }
  flush();
  return files;
}

}  // namespace

std::string replace_all(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; !from.empty() && (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

std::string under_name(const std::string& text, const std::string& shown, const std::string& instantiate) {
  const std::string quoted = replace_all(replace_all(shown, "\\", "\\\\"), "\"", "\\\"");
  std::string copy = fmt::format("#line 1 \"{}\"\n{}", quoted, text);
  if (!instantiate.empty()) copy += fmt::format("\n{};\n", instantiate);
  return copy;
}

std::vector<Dependency> dependencies_of_rule(std::string_view rule, const std::string& input) {
  std::vector<Dependency> out;
  std::error_code ec;
  for (const std::string& file : files_of_rule(rule)) {
    if (file == input || fs::path(file).lexically_normal() == fs::path(input).lexically_normal()) continue;
    if (const auto content = read_file(file, kMaxSource))
      out.push_back({fs::absolute(file, ec).lexically_normal().string(), to_string(hash_text(*content))});
  }
  return out;
}

}  // namespace klab::compile
