// SPDX-License-Identifier: Apache-2.0
#include "variant/tree.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

namespace klab::variant {
namespace {

constexpr std::uint64_t kMaxShaderBytes = 4u << 20;
constexpr std::size_t kMaxIndexed = 500'000;
constexpr std::size_t kBinaryProbe = 8192;
constexpr int kMaxDepth = 64;

bool is_shader_name(const fs::path& path) {
  static const std::set<std::string> kExtensions{".comp", ".glsl", ".compute", ".glslc", ".cs"};
  std::string extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  // C# shares .cs; only the GLSL habit of "x.cs.glsl" is meant.
  return extension != ".cs" && kExtensions.count(extension) != 0;
}

bool is_cuda_name(const fs::path& path) {
  static const std::set<std::string> kExtensions{".cu",  ".cuh", ".hip", ".h",   ".hpp", ".hh",  ".hxx", ".inl",
                                                 ".inc", ".ipp", ".cpp", ".cc",  ".cxx", ".c"};
  return kExtensions.count(path.extension().string()) != 0;
}

bool is_skipped_folder(const fs::path& path) {
  const std::string name = path.filename().string();
  if (name.starts_with(".") || name == "node_modules" || name == "build" || name == "_build" ||
      name == "CMakeFiles" || name.starts_with("build-") || name.starts_with("cmake-build"))
    return true;
  std::error_code ec;
  return fs::exists(path / "CMakeCache.txt", ec) || fs::exists(path / ".ninja_log", ec);
}

bool has_main(const std::string& text) {
  for (std::size_t at = text.find("main"); at != std::string::npos; at = text.find("main", at + 4)) {
    std::size_t before = at, after = at + 4;
    while (before > 0 && std::isspace(static_cast<unsigned char>(text[before - 1])) != 0) --before;
    while (after < text.size() && std::isspace(static_cast<unsigned char>(text[after])) != 0) ++after;
    if (before < at && before >= 4 && text.compare(before - 4, 4, "void") == 0 && after < text.size() &&
        text[after] == '(')
      return true;
  }
  return false;
}

std::vector<std::string> included_names(const std::string& text) {
  std::vector<std::string> names;
  for (std::size_t at = text.find("#"); at != std::string::npos; at = text.find("#", at + 1)) {
    std::size_t i = at + 1;
    while (i < text.size() && (text[i] == ' ' || text[i] == '\t')) ++i;
    if (text.compare(i, 7, "include") != 0) continue;
    i += 7;
    while (i < text.size() && (text[i] == ' ' || text[i] == '\t')) ++i;
    if (i >= text.size() || (text[i] != '"' && text[i] != '<')) continue;
    const std::size_t end = text.find_first_of("\">\n", i + 1);
    if (end != std::string::npos && text[end] != '\n') names.push_back(text.substr(i + 1, end - i - 1));
  }
  return names;
}

bool is_below(const fs::path& path, const fs::path& root) {
  return std::mismatch(root.begin(), root.end(), path.begin(), path.end()).first == root.end();
}

}  // namespace

std::string shader_stem(const fs::path& path) {
  fs::path name = path.filename();
  while (name.has_extension() && (is_shader_name(name) || name.extension() == ".cs")) name = name.stem();
  return name.string();
}

std::size_t shared_tail(const fs::path& named, const fs::path& path) {
  const fs::path normal = named.lexically_normal();
  auto a = normal.end(), b = path.end();
  std::size_t shared = 0;
  while (a != normal.begin() && b != path.begin() && *std::prev(a) == *std::prev(b)) --a, --b, ++shared;
  return shared;
}

Result<Tree> walk_tree(const fs::path& root, std::size_t max_files, TreeKind kind) {
  Tree tree;
  std::error_code ec;
  tree.root = fs::canonical(root, ec);
  if (ec) return fail_errno(ec.value(), root.string());
  if (!fs::is_directory(tree.root, ec))
    return fail(ErrorCode::not_found, fmt::format("{} is not a folder", root.string()),
                "--root names the folder of the sources");
  std::vector<std::pair<fs::path, int>> todo{{tree.root, 0}};
  std::size_t indexed = 0;
  while (!todo.empty()) {
    const auto [folder, depth] = todo.back();
    todo.pop_back();
    fs::directory_iterator it(folder, ec);
    if (ec && folder == tree.root) return fail_errno(ec.value(), root.string());
    for (; !ec && it != fs::directory_iterator(); it.increment(ec)) {
      std::error_code one;
      const auto status = it->symlink_status(one);
      if (one) continue;
      if (fs::is_directory(status)) {
        if (depth < kMaxDepth && !is_skipped_folder(it->path())) todo.emplace_back(it->path(), depth + 1);
        continue;
      }
      if (!fs::is_regular_file(status)) continue;
      if (++indexed <= kMaxIndexed) tree.by_name[it->path().filename().string()].push_back(it->path());
      if (kind == TreeKind::shaders ? !is_shader_name(it->path()) : !is_cuda_name(it->path())) continue;
      if (tree.shaders.size() >= max_files) {
        tree.truncated = true;
        continue;
      }
      auto text = read_file(it->path(), kMaxShaderBytes);
      if (!text || std::string_view(*text).substr(0, kBinaryProbe).find('\0') != std::string_view::npos)
        continue;
      // Most C++ files have no kernel, and their texts need not be kept.
      if (kind == TreeKind::cuda && text->find("__global__") == std::string::npos) continue;
      const bool main = kind == TreeKind::shaders && has_main(*text);
      tree.shaders.push_back({it->path(), std::move(*text), main});
    }
    ec.clear();
  }
  std::sort(tree.shaders.begin(), tree.shaders.end(),
            [](const auto& a, const auto& b) { return a.path < b.path; });
  return tree;
}

std::vector<std::string> Tree::include_folders(const ShaderFile& file,
                                               const std::vector<std::string>& given) const {
  std::vector<std::string> folders;
  const auto want = [&](const fs::path& folder) {
    const std::string name = folder.string();
    if (std::find(given.begin(), given.end(), name) == given.end() &&
        std::find(folders.begin(), folders.end(), name) == folders.end())
      folders.push_back(name);
  };
  std::set<fs::path> seen{file.path};
  std::vector<std::pair<fs::path, std::string>> todo{{file.path, file.text}};
  while (!todo.empty() && seen.size() < 1000) {
    auto [path, text] = std::move(todo.back());
    todo.pop_back();
    for (const std::string& name : included_names(text)) {
      std::error_code ec;
      fs::path found;
      const fs::path beside = (path.parent_path() / name).lexically_normal();
      if (fs::is_regular_file(beside, ec) && is_below(beside, root)) {
        found = beside;
        if (!is_below(beside, file.path.parent_path())) want(beside.parent_path());
      }
      for (std::size_t i = 0; found.empty() && i < given.size(); ++i)
        if (const fs::path p = fs::path(given[i]) / name; fs::is_regular_file(p, ec)) found = p;
      if (found.empty()) {
        const fs::path wanted = fs::path(name).lexically_normal();
        const auto length = static_cast<std::size_t>(std::distance(wanted.begin(), wanted.end()));
        const auto candidates = by_name.find(wanted.filename().string());
        if (candidates == by_name.end()) continue;
        std::size_t best_near = 0;
        for (const fs::path& p : candidates->second) {
          if (shared_tail(wanted, p) < length) continue;
          // The one nearest to the including file.
          const auto split = std::mismatch(p.begin(), p.end(), path.begin(), path.end());
          const auto near = static_cast<std::size_t>(std::distance(p.begin(), split.first)) + 1;
          if (near > best_near) best_near = near, found = p;
        }
        if (found.empty()) continue;
        fs::path folder = found;
        for (std::size_t i = 0; i < length; ++i) folder = folder.parent_path();
        want(folder);
      }
      if (seen.insert(found).second)
        if (auto content = read_file(found, kMaxShaderBytes)) todo.emplace_back(found, std::move(*content));
    }
  }
  return folders;
}

}  // namespace klab::variant
