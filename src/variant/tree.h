// SPDX-License-Identifier: Apache-2.0
// What lies under a source root: shader files, and where an include's name is found.
// Not here: judging the files (find.cpp).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/files.h"

namespace klab::variant {

struct ShaderFile {
  fs::path path;  // absolute, without links
  std::string text;
  bool has_main = false;
};

struct Tree {
  fs::path root;                    // canonical
  std::vector<ShaderFile> shaders;  // text files with a shader's name (TreeKind::cuda: with one of CUDA C++)
  bool truncated = false;           // more than the caller's cap

  /// Folders besides `text`'s own that its includes, and theirs, need; found by the end of their paths.
  std::vector<std::string> include_folders(const ShaderFile& file,
                                           const std::vector<std::string>& given) const;

  std::unordered_map<std::string, std::vector<fs::path>> by_name;  // file name -> paths
};

/// Walks `root`; follows no link, skips version control, build folders, binary files and files over 4 MiB.
/// Errors: not_found, io_failed (`root` itself cannot be read).
enum class TreeKind { shaders, cuda };
Result<Tree> walk_tree(const fs::path& root, std::size_t max_files, TreeKind kind = TreeKind::shaders);

/// "a/kernel.comp.glsl" -> "kernel".
std::string shader_stem(const fs::path& path);

/// How many components, from the end, `named` (as a compiler was given it) and `path` share; 0 when the file
/// names differ.
std::size_t shared_tail(const fs::path& named, const fs::path& path);

}  // namespace klab::variant
