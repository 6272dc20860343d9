// SPDX-License-Identifier: Apache-2.0
#include "compile/cuda/includes.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/hash.h"

namespace klab::compile {
namespace {

constexpr std::size_t kMaxFiles = 20000;
constexpr std::uint64_t kMaxBytes = 64u << 20;  // of one file

struct Named {
  std::string name;
  bool quoted = false;
};

// Joined over "\\\n", so that a directive is one line.
std::string spliced(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\') {
      std::size_t next = i + 1;
      while (next < text.size() && (text[next] == ' ' || text[next] == '\t' || text[next] == '\r')) ++next;
      if (next < text.size() && text[next] == '\n') {
        i = next;
        continue;
      }
    }
    out += text[i];
  }
  return out;
}

void skip_blanks(std::string_view text, std::size_t& at) {
  for (;;) {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\t' || text[at] == '\f' || text[at] == '\v'))
      ++at;
    if (text.substr(at, 2) != "/*") return;
    const std::size_t end = text.find("*/", at + 2);
    if (end == std::string_view::npos) return;
    at = end + 2;
  }
}

// A name in <> or "" at `at`; false when something else is there.
bool take_name(std::string_view text, std::size_t at, std::vector<Named>& out) {
  if (at >= text.size() || (text[at] != '<' && text[at] != '"')) return false;
  const char close = text[at] == '<' ? '>' : '"';
  const std::size_t end = text.find_first_of(std::string{close, '\n'}, at + 1);
  if (end == std::string_view::npos || text[end] != close) return false;
  out.push_back({std::string(text.substr(at + 1, end - at - 1)), close == '"'});
  return true;
}

// Comments and strings are not told apart from code: an include seen in one is one too many, never one too
// few.
std::vector<Named> names_in(std::string_view raw, bool& complete) {
  const std::string text = raw.find('\\') == std::string_view::npos ? std::string(raw) : spliced(raw);
  const std::string_view view = text;
  std::vector<Named> names;
  for (std::size_t at = 0; (at = view.find_first_of("#%?_", at)) != std::string_view::npos; ++at) {
    if (view[at] == '_') {
      if (view.substr(at, 13) != "__has_include") continue;
      std::size_t next = at + 13;
      if (view.substr(next, 5) == "_next") next += 5;
      skip_blanks(view, next);
      if (next < view.size() && view[next] == '(') skip_blanks(view, ++next);
      (void)take_name(view, next, names);  // `#ifdef __has_include` names nothing
      continue;
    }
    std::size_t next = at + 1;
    if (view[at] == '%') {
      if (view.substr(at, 2) != "%:") continue;
      next = at + 2;
    } else if (view[at] == '?') {
      if (view.substr(at, 3) != "?\?=") continue;
      next = at + 3;
    }
    skip_blanks(view, next);
    std::size_t word = next;
    while (word < view.size() && ((view[word] >= 'a' && view[word] <= 'z') || view[word] == '_')) ++word;
    const std::string_view directive = view.substr(next, word - next);
    if (directive != "include" && directive != "include_next" && directive != "import" &&
        directive != "embed")
      continue;
    skip_blanks(view, word);
    if (take_name(view, word, names)) continue;
    // A macro's name: an identifier follows. Anything else is no directive (a macro's `#include_guard`, say).
    if (word < view.size() &&
        (std::isalpha(static_cast<unsigned char>(view[word])) != 0 || view[word] == '_'))
      complete = false;
  }
  return names;
}

bool is_below(const fs::path& path, const std::vector<fs::path>& roots) {
  return std::any_of(roots.begin(), roots.end(), [&](const fs::path& root) {
    return std::mismatch(root.begin(), root.end(), path.begin(), path.end()).first == root.end();
  });
}

}  // namespace

Includes scan_includes(std::string_view text, const std::string& source,
                       const std::vector<std::string>& folders, const std::vector<std::string>& trusted) {
  Includes result;
  std::error_code ec;
  std::vector<fs::path> roots;
  for (const std::string& folder : trusted) {
    const fs::path real = fs::weakly_canonical(folder, ec);
    roots.push_back(ec ? fs::path(folder) : real);
  }
  const fs::path own = source.empty() ? fs::current_path(ec) : fs::absolute(source, ec).parent_path();
  std::map<std::string, std::string> seen;  // path -> hash
  struct Todo {
    fs::path folder;  // of the including file
    std::vector<Named> names;
  };
  std::vector<Todo> todo;
  todo.push_back({own, names_in(text, result.complete)});
  for (const Named& n : todo.front().names)
    result.names.push_back(n.quoted ? fmt::format("\"{}\"", n.name) : fmt::format("<{}>", n.name));
  std::size_t files = 0;
  while (!todo.empty()) {
    const Todo now = std::move(todo.back());
    todo.pop_back();
    for (const Named& named : now.names) {
      if (named.name.empty() || named.name.find('\0') != std::string::npos) continue;
      std::vector<fs::path> places;
      if (named.name[0] == '/') {
        places.emplace_back(named.name);
      } else {
        // Some compilers look beside the source for <...> too, so every place is taken for every form, and
        // all files found are followed: which one wins is not for us to say.
        places.push_back(now.folder / named.name);
        places.push_back(own / named.name);
        for (const std::string& folder : folders) places.push_back(fs::absolute(folder, ec) / named.name);
      }
      for (const fs::path& place : places) {
        const std::string key = place.lexically_normal().string();
        if (seen.count(key) != 0) continue;
        if (!fs::is_regular_file(key, ec)) {
          if (!is_below(key, roots)) seen[key] = "";
          continue;
        }
        const fs::path real = fs::canonical(key, ec);
        if (!ec && is_below(real, roots)) continue;
        if (++files > kMaxFiles) {
          result.complete = false;
          break;
        }
        const auto content = read_file(key, kMaxBytes);
        if (!content) {
          result.complete = false;
          continue;
        }
        seen[key] = to_string(hash_text(*content));
        todo.push_back({fs::path(key).parent_path(), names_in(*content, result.complete)});
      }
    }
  }
  for (const auto& [path, hash] : seen) result.dependencies.push_back({path, hash});
  return result;
}

}  // namespace klab::compile
