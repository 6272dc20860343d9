// SPDX-License-Identifier: Apache-2.0
// Reads CUDA C++ just well enough to see which __global__ functions it has: comments, strings and
// preprocessor lines are passed over, braces are counted, namespaces are named.
#include <algorithm>
#include <cctype>
#include <optional>

#include "variant/variant.h"

namespace klab::variant {
namespace {

struct Token {
  std::string_view text;
  std::uint32_t line = 0;
};

bool word_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool word_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::vector<Token> tokens_of(std::string_view text) {
  std::vector<Token> tokens;
  std::uint32_t line = 1;
  bool line_start = true;
  const auto skip_to = [&](std::size_t from, std::size_t to) {
    line += static_cast<std::uint32_t>(std::count(text.begin() + static_cast<std::ptrdiff_t>(from),
                                                  text.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
    return to;
  };
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '\n') {
      ++line, ++i;
      line_start = true;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++i;
    } else if (c == '#' && line_start) {
      // To the end of the line, continued lines included.
      std::size_t end = text.find('\n', i);
      while (end != std::string_view::npos && end > 0 &&
             (text[end - 1] == '\\' || (text[end - 1] == '\r' && end > 1 && text[end - 2] == '\\')))
        end = text.find('\n', end + 1);
      i = skip_to(i, end == std::string_view::npos ? text.size() : end);
    } else if (text.substr(i, 2) == "//") {
      const std::size_t end = text.find('\n', i);
      i = end == std::string_view::npos ? text.size() : end;
    } else if (text.substr(i, 2) == "/*") {
      const std::size_t end = text.find("*/", i + 2);
      i = skip_to(i, end == std::string_view::npos ? text.size() : end + 2);
    } else if (text.substr(i, 2) == "R\"") {
      const std::size_t open = text.find('(', i);
      std::size_t end = std::string_view::npos;
      if (open != std::string_view::npos && open - i < 20) {
        const std::string close = ")" + std::string(text.substr(i + 2, open - i - 2)) + "\"";
        end = text.find(close, open);
        if (end != std::string_view::npos) end += close.size();
      }
      i = skip_to(i, end == std::string_view::npos ? i + 2 : end);
      line_start = false;
    } else if (c == '"' || (c == '\'' && (i == 0 || !word_char(text[i - 1])))) {
      std::size_t end = i + 1;
      while (end < text.size() && text[end] != c && text[end] != '\n') end += text[end] == '\\' ? 2 : 1;
      end = std::min(end, text.size());
      tokens.push_back({"\"", line});
      i = skip_to(i, end < text.size() && text[end] == c ? end + 1 : end);
      line_start = false;
    } else {
      std::size_t end = i + 1;
      if (word_start(c))
        while (end < text.size() && word_char(text[end])) ++end;
      else if (text.substr(i, 2) == "::")
        end = i + 2;
      tokens.push_back({text.substr(i, end - i), line});
      i = end;
      line_start = false;
    }
  }
  return tokens;
}

// Behind the bracket that closes the one at `at`.
std::size_t behind(const std::vector<Token>& t, std::size_t at, std::string_view open,
                   std::string_view close) {
  int depth = 0;
  for (; at < t.size(); ++at) {
    if (t[at].text == open) ++depth;
    if (t[at].text == close && --depth == 0) return at + 1;
  }
  return t.size();
}

std::size_t count_parameters(const std::vector<Token>& t, std::size_t open, std::size_t end) {
  if (end <= open + 2 || (end == open + 3 && t[open + 1].text == "void")) return 0;
  std::size_t count = 1;
  int depth = 0;
  for (std::size_t i = open + 1; i + 1 < end; ++i) {
    const std::string_view s = t[i].text;
    if (s == "(" || s == "<" || s == "[" || s == "{") ++depth;
    if (s == ")" || s == ">" || s == "]" || s == "}") --depth;
    if (s == "," && depth == 0) ++count;
  }
  return count;
}

bool is_attribute(std::string_view word) {
  return word.starts_with("__") || word == "alignas" || word == "noexcept" || word == "decltype";
}

// The definition whose __global__ is at `at`; `next` is where reading goes on.
std::optional<KernelDefinition> definition_at(const std::vector<Token>& t, std::size_t at,
                                              std::size_t& next) {
  KernelDefinition k;
  // In front of it: "template <...>" up to the last ";", "}" or "{".
  for (std::size_t i = at; i-- > 0;) {
    const std::string_view s = t[i].text;
    if (s == ";" || s == "}" || s == "{") break;
    if (s == "template") {
      // "template __global__ void k<float>(...)" instantiates, and defines nothing.
      if (i + 1 < t.size() && t[i + 1].text != "<") return std::nullopt;
      k.is_template = true;
    }
  }
  std::size_t i = at + 1;
  std::string_view name;
  std::uint32_t line = 0;
  for (; i < t.size(); ++i) {
    const std::string_view s = t[i].text;
    if (s == ";" || s == "{" || s == "}") return std::nullopt;
    if (s == "(") {
      if (!name.empty() && !is_attribute(name)) break;
      i = behind(t, i, "(", ")") - 1;  // __launch_bounds__(256)
      name = {};
    } else if (s == "<" && !name.empty()) {
      return std::nullopt;  // an explicit specialisation's arguments: its name is that of the template
    } else if (word_start(s[0])) {
      name = s;
      line = t[i].line;
    }
  }
  if (i >= t.size()) return std::nullopt;
  const std::size_t end = behind(t, i, "(", ")");
  k.name = name;
  k.line = line;
  k.parameters = count_parameters(t, i, end);
  std::size_t body = end;
  while (body < t.size() && t[body].text != "{" && t[body].text != ";") ++body;
  k.defined = body < t.size() && t[body].text == "{";
  next = body;
  return k;
}

}  // namespace

std::vector<KernelDefinition> kernels_of(std::string_view text) {
  const std::vector<Token> t = tokens_of(text);
  std::vector<KernelDefinition> kernels;
  struct Scope {
    bool is_namespace = false;
    std::vector<std::string> names;
  };
  std::vector<Scope> scopes;
  Scope coming;
  for (std::size_t i = 0; i < t.size(); ++i) {
    const std::string_view s = t[i].text;
    if (s == "namespace") {
      coming = {true, {}};
      std::size_t k = i + 1;
      for (; k < t.size() && t[k].text != "{" && t[k].text != ";" && t[k].text != "="; ++k) {
        if (t[k].text == "[")
          k = behind(t, k, "[", "]") - 1;
        else if (word_start(t[k].text[0]) && !is_attribute(t[k].text) && t[k].text != "inline")
          coming.names.emplace_back(t[k].text);
      }
      if (k >= t.size() || t[k].text != "{") {
        coming = {};
        continue;
      }
      if (coming.names.empty()) coming.names.emplace_back();
      i = k - 1;
    } else if (s == "{") {
      scopes.push_back(std::exchange(coming, {}));
    } else if (s == "}") {
      if (!scopes.empty()) scopes.pop_back();
    } else if (s == "__global__") {
      std::size_t next = i;
      if (auto k = definition_at(t, i, next)) {
        for (const Scope& scope : scopes)
          if (scope.is_namespace)
            k->namespaces.insert(k->namespaces.end(), scope.names.begin(), scope.names.end());
        kernels.push_back(std::move(*k));
        i = next > i ? next - 1 : i;
      }
    }
  }
  return kernels;
}

}  // namespace klab::variant
