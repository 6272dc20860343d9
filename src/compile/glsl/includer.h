// SPDX-License-Identifier: Apache-2.0
// Finds what a shader includes, and nothing outside the folders that the user named.
// Not here: compiling (glsl.h).
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "compile/protocol.h"

namespace klab::compile {

inline constexpr std::size_t kMaxIncludeDepth = 64;
inline constexpr std::uint64_t kMaxIncludeBytes = 16u << 20;
inline constexpr std::size_t kMaxIncludes = 10000;  // of one compilation, each use counted

struct Included {
  std::string name;  // as messages show it
  std::string content;
};

class IncludeFinder {
 public:
  /// `source` is the compiled file as the user named it; its folder counts as one that the user named. Empty:
  /// no such folder.
  IncludeFinder(std::vector<std::string> folders, const std::string& source);

  /// `requested` in "..." (`relative`: the including file's folder first) or <...>. `depth` counts from 1.
  /// Errors: not_found, compile_failed (outside the folders, too deep: names the cycle), cap_reached.
  Result<Included> find(std::string_view requested, std::string_view requesting, bool relative,
                        std::size_t depth);

  /// Files read and places where a file was looked for in vain, each once.
  std::vector<Dependency> dependencies() const;

 private:
  bool allowed(const fs::path& canonical) const;

  std::vector<std::string> folders_;
  std::vector<fs::path> roots_;  // canonical
  std::vector<std::string> chain_;
  std::map<std::string, std::string> seen_;  // path -> hash
  std::size_t uses_ = 0;
};

}  // namespace klab::compile
