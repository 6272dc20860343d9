// SPDX-License-Identifier: Apache-2.0
// Reads a bundle: foreign bytes, mapped, each checked against its hash before it is used.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "bundle/manifest.h"

namespace klab::bundle {

/// Thread: const members from any thread.
class Reader {
 public:
  /// Opens NAME.klab/ and checks manifest, index and their agreement (list sizes equal region sizes, offsets inside
  /// data.pack). Data is checked chunk by chunk at first read.
  /// Errors: not_found, invalid_data, bundle_corrupt, bundle_version.
  static Result<Reader> open(const fs::path& path);
  Reader(Reader&&) noexcept;
  Reader& operator=(Reader&&) noexcept;
  ~Reader();

  const Manifest& manifest() const;
  const fs::path& path() const;
  std::uint64_t list_size(std::uint32_t list) const;    // bytes
  std::uint64_t chunk_count(std::uint32_t list) const;
  /// Equal for equal content; zero chunks are all Hash128{}.
  Hash128 chunk_hash(std::uint32_t list, std::uint64_t chunk) const;
  /// The chunk's bytes: mapped, or a static zero page. Errors: bundle_corrupt.
  Result<std::span<const std::byte>> chunk(std::uint32_t list, std::uint64_t chunk) const;
  /// Copies [offset, offset + out.size()) of a list. Errors: usage outside the list, bundle_corrupt.
  Status read(std::uint32_t list, std::uint64_t offset, std::span<std::byte> out) const;
  /// Bytes of a code object, hash checked.
  Result<std::vector<std::byte>> code(std::uint32_t index) const;

  struct Verified {
    std::uint64_t chunks = 0, stored_bytes = 0, logical_bytes = 0, code_objects = 0;
  };
  /// Reads and checks everything. Errors: bundle_corrupt naming the first bad chunk or file.
  Result<Verified> verify() const;

 private:
  struct Impl;
  explicit Reader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace klab::bundle
