// SPDX-License-Identifier: Apache-2.0
// data.idx: which chunks data.pack holds and which lists they make. docs/bundle-format.md has the bytes.
// Not here: chunk data (reader.cpp, writer.cpp).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "bundle/manifest.h"

namespace klab::bundle {

inline constexpr std::uint64_t kPackAlignment = 4096;
inline constexpr std::uint32_t kZeroChunk = 0xffffffff;  // a chunk number that stands for zeros

inline constexpr std::uint64_t align_up(std::uint64_t n) {
  return (n + kPackAlignment - 1) & ~(kPackAlignment - 1);
}

struct IndexChunk {
  Hash128 hash;
  std::uint64_t offset = 0;
  std::uint32_t size = 0;
};

struct IndexList {
  std::uint64_t size = 0;   // bytes
  std::uint64_t first = 0;  // position of its first chunk number in Index::numbers
};

struct Index {
  std::vector<IndexChunk> chunks;
  std::vector<IndexList> lists;
  std::vector<std::uint32_t> numbers;
  std::uint64_t pack_size = 0;

  std::uint64_t list_chunks(std::uint32_t list) const;
};

/// Bytes that chunk `chunk` of a list of `list_size` bytes has.
std::uint64_t chunk_bytes(std::uint64_t list_size, std::uint64_t chunk);

std::string write_index(const Index& index);
/// Checks everything but the hashes: counts against the length before anything is allocated, chunks lie in
/// data.pack one after the other, each chunk number is in range and has the size its place asks for. Errors:
/// invalid_data.
Result<Index> read_index(std::span<const std::byte> bytes, std::string_view source);

/// Every list that a region names exists and has the region's size. Errors: invalid_data.
Status check_lists(const Manifest& manifest, const Index& index, std::string_view source);

}  // namespace klab::bundle
