// SPDX-License-Identifier: Apache-2.0
// Files that are whole or not there, and where Klab keeps its own.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace klab {

namespace fs = std::filesystem;

/// Closes on destruction; -1 is empty.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd();
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// Errors: not_found, io_failed, cap_reached when longer than `max_bytes`.
Result<std::string> read_file(const fs::path& path, std::uint64_t max_bytes = 1ull << 30);

/// Writes all of `bytes`, restarting short writes. Errors: io_failed, disk_full.
Status write_all(int fd, std::span<const std::byte> bytes);

/// Temporary file in the same folder, fsync, rename, fsync of the folder: readers see the old file or the new
/// one. `mode` is the new file's permission bits. Not `durable`: no fsync, for what a power cut may lose or damage (a
/// cache that checks its hashes). Errors: io_failed, disk_full; the old file is then untouched.
Status write_file_atomic(const fs::path& path, std::string_view text, unsigned mode = 0600, bool durable = true);

/// fsync of a folder, so that a rename in it survives a power cut.
Status sync_folder(const fs::path& path);

/// Creates `path` and its parents; what is new is 0700.
Status make_folders(const fs::path& path);

/// $KLAB_HOME, else $XDG_DATA_HOME/klab, else ~/.local/share/klab. Not created.
fs::path klab_home();
/// $XDG_CACHE_HOME/klab, else ~/.cache/klab; below $KLAB_HOME/cache when that is set. Not created.
fs::path klab_cache();
/// The folder of this program, where klab-worker, klab-compile and the shims also are.
fs::path program_folder();

}  // namespace klab
