// SPDX-License-Identifier: Apache-2.0
// The one place that decides which of the user's files a session may touch: those beneath its roots.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/files.h"

namespace klab::ops {

enum class PathKind { file, folder };

/// A file or folder beneath a root, held open, so that what was checked is what is used whatever happens to its name.
struct Allowed {
  fs::path path;   // root / rest, without links below the root
  fs::path root;
  Fd fd;           // file: open for reading; folder: O_PATH
  Fd parent;       // file: its folder, O_PATH
};

/// Roots as a session keeps them: absolute, canonical, each a folder that is there. Errors: usage (relative, none),
/// not_found, not_allowed (no folder).
Result<std::vector<std::string>> canonical_roots(const std::vector<std::string>& roots);

/// `path` absolute, or relative to a root. Errors: not_allowed, by name: NUL bytes, `..`, outside every root, a symbolic
/// link below the root, neither regular file nor (as asked) folder; not_found.
Result<Allowed> open_allowed(const std::vector<std::string>& roots, std::string_view path, PathKind kind);
/// Whole content through the open file. Errors: io_failed, cap_reached.
Result<std::string> read_allowed(const Allowed& file, std::uint64_t max_bytes = 64u << 20);

/// Whether a canonical absolute path lies beneath one of `roots` by its name alone; for answers that name files.
bool beneath(const std::vector<std::string>& roots, const fs::path& path);

namespace detail {
/// `rest` below `folder`, component by component: what open_allowed does where the kernel has no openat2.
Result<Fd> open_by_component(int folder, const fs::path& rest, const std::string& named);
/// By openat2; `supported` turns false where the kernel has none.
Result<Fd> open_by_openat2(int folder, const fs::path& rest, const std::string& named, bool& supported);
}  // namespace detail

}  // namespace klab::ops
