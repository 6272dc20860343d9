// SPDX-License-Identifier: Apache-2.0
// Writes a bundle: NAME.klab/ is either whole or not there.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/files.h"
#include "bundle/manifest.h"

namespace klab::bundle {

/// One bundle in the making, in a staging folder `.NAME.klab.XXXX.partial` beside its final place (0700, files
/// 0600). Destroying an unsealed writer removes that folder. Chunks are hashed (XXH3-128), stored once in data.pack,
/// zero chunks are not stored.
/// Thread: one at a time.
class Writer {
 public:
  struct Options {
    std::uint64_t max_bytes = 0;  // of data.pack; 0: no cap
    bool replace = false;         // an existing bundle at that path is exchanged on seal, atomically
  };
  /// Errors: io_failed, disk_full, usage when `path` exists and `replace` is false.
  static Result<Writer> create(const fs::path& path, Options options);
  Writer(Writer&&) noexcept;
  Writer& operator=(Writer&&) noexcept;
  ~Writer();

  /// A new chunk list of `size` bytes, all zero until put. Its number goes into Region::pre or post.
  Result<std::uint32_t> add_list(std::uint64_t size);
  /// Puts chunk `chunk` (offset chunk * kChunkSize). `bytes` is a whole chunk, or the shorter last one.
  /// Chunks come in any order; the last put wins. Errors: io_failed, disk_full, cap_reached.
  Status put(std::uint32_t list, std::uint64_t chunk, std::span<const std::byte> bytes);
  /// Stores a code object as code/N.EXTENSION (one file per distinct content); returns N, and fills in `object`.
  Result<std::uint32_t> add_code(std::string_view kind, std::string_view extension, std::span<const std::byte> bytes);
  /// Code objects added so far, as seal will write them.
  std::vector<CodeObject>& code();

  struct Sealed {
    fs::path path;
    std::uint64_t stored_bytes = 0;   // data.pack
    std::uint64_t logical_bytes = 0;  // sum of all lists
  };
  /// Fills in code, index_hash, made_by; writes manifest; fsyncs all; renames into place.
  /// Errors: io_failed, disk_full. On error nothing is left at the final path that was not there before.
  Result<Sealed> seal(Manifest manifest);

 private:
  struct Impl;
  explicit Writer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Replaces manifest.json of a sealed bundle atomically (the proof replay's outcome is added after sealing).
Status update_manifest(const fs::path& bundle, const Manifest& manifest);

/// Removes staging folders of dead writers beside bundles in `folder` (their name carries the pid and start time).
/// Returns how many were removed.
int sweep_partial(const fs::path& folder);

}  // namespace klab::bundle
