// SPDX-License-Identifier: Apache-2.0
// Which files a CUDA source may include: more than it does rather than fewer, since a cached build rests on
// it. NVRTC tells nothing of what it read.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "compile/protocol.h"

namespace klab::compile {

struct Includes {
  std::vector<Dependency> dependencies;  // files there, by hash; places where a nearer one would win, without
  bool complete =
      true;  // false: an include is named by a macro, or there are too many; then nothing may rest on this
  std::vector<std::string> names;  // of the source itself, as written: "<vector>", "\"tile.cuh\""
};
/// Follows each `#include`, `__has_include` and `#embed` of `text` and of what it finds, whatever `#if` is
/// around it. `folders` in the compiler's order. Files below `trusted` (the toolkit's own, known by its
/// version) are not followed.
Includes scan_includes(std::string_view text, const std::string& source,
                       const std::vector<std::string>& folders, const std::vector<std::string>& trusted);

}  // namespace klab::compile
