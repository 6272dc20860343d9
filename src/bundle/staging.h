// SPDX-License-Identifier: Apache-2.0
// A folder in the making: beside its final place, named after its owner, moved there whole or removed.
// Not here: what is in it (writer.cpp, pack.cpp).
#pragma once
#include <sys/types.h>

#include "base/error.h"
#include "base/files.h"

namespace klab::bundle {

/// `path` without a trailing slash; usage when it has no file name.
Result<fs::path> bundle_path(const fs::path& path);

/// `.NAME.PID-START-XXXX.partial` beside `path`: a name that sweep_partial knows the owner of.
Result<fs::path> partial_path(const fs::path& path);

/// Renames, refusing to overwrite. Errors: usage when `to` exists, io_failed.
Status rename_new(const fs::path& from, const fs::path& to);

/// Whether `path` holds a bundle and nothing else: only such a folder may ever be replaced.
bool looks_like_bundle(const fs::path& path);

/// A staging folder, held with a lock that marks it as in use.
/// Destruction removes it unless `publish` moved it.
class Staging {
 public:
  /// Creates the folder (0700) with a folder code/ in it. Parents are created.
  /// Errors: usage when `path` exists and may not be replaced, io_failed, disk_full.
  static Result<Staging> create(const fs::path& path, bool replace);
  Staging(Staging&& other) noexcept;
  Staging& operator=(Staging&& other) noexcept;
  ~Staging();

  const fs::path& folder() const { return folder_; }
  const fs::path& path() const { return path_; }
  /// A new file in the folder, 0600.
  Result<Fd> create_file(const fs::path& name) const;
  /// Creates `name` with `bytes`, fsynced.
  Status write_file(const fs::path& name, std::span<const std::byte> bytes) const;
  /// Fsyncs the folders, renames to the final path, fsyncs its parent; a replaced bundle is removed last.
  /// On error nothing has changed at the final path.
  Status publish();

 private:
  Staging() = default;
  void remove();
  fs::path path_, folder_;
  bool replace_ = false;
  pid_t owner_ = -1;  // a forked child must not remove its parent's folder
  Fd lock_;
};

/// See writer.h.
int sweep_partial(const fs::path& folder);

}  // namespace klab::bundle
