// SPDX-License-Identifier: Apache-2.0
#include "bundle/index.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

namespace klab::bundle {
namespace {

static_assert(std::endian::native == std::endian::little, "data.idx is little endian");

constexpr char kMagic[8] = {'K', 'L', 'A', 'B', 'I', 'D', 'X', '\n'};
constexpr std::uint64_t kMaxListSize = 1ull << 48;

struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t chunk_size;
  std::uint64_t chunks, lists, numbers, pack_size;
};
static_assert(sizeof(Header) == 48);

struct ChunkRecord {
  std::uint64_t hash_low, hash_high, offset;
  std::uint32_t size, zero;
};
static_assert(sizeof(ChunkRecord) == 32);

template <class T>
void append(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}
template <class T>
T take(const std::byte*& p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  p += sizeof value;
  return value;
}

std::uint64_t chunks_of(std::uint64_t size) { return size / kChunkSize + (size % kChunkSize != 0 ? 1 : 0); }

}  // namespace

std::uint64_t Index::list_chunks(std::uint32_t list) const { return chunks_of(lists[list].size); }

std::uint64_t chunk_bytes(std::uint64_t list_size, std::uint64_t chunk) {
  return std::min(kChunkSize, list_size - chunk * kChunkSize);
}

std::string write_index(const Index& index) {
  std::string out;
  out.reserve(sizeof(Header) + index.chunks.size() * sizeof(ChunkRecord) + index.lists.size() * 8 +
              index.numbers.size() * 4);
  Header h{{},
           kFormatVersion,
           kChunkSize,
           index.chunks.size(),
           index.lists.size(),
           index.numbers.size(),
           index.pack_size};
  std::memcpy(h.magic, kMagic, sizeof kMagic);
  append(out, h);
  for (const IndexChunk& c : index.chunks)
    append(out, ChunkRecord{c.hash.low, c.hash.high, c.offset, c.size, 0});
  for (const IndexList& l : index.lists) append(out, l.size);
  for (std::uint32_t n : index.numbers) append(out, n);
  return out;
}

Result<Index> read_index(std::span<const std::byte> bytes, std::string_view source) {
  auto bad = [&](std::string what) {
    return fail(ErrorCode::invalid_data, fmt::format("{}: {}", source, what),
                "the bundle is damaged or not one; capture again");
  };
  if (bytes.size() < sizeof(Header))
    return bad(fmt::format("{} bytes are too few for an index", bytes.size()));
  const std::byte* p = bytes.data();
  const auto h = take<Header>(p);
  if (std::memcmp(h.magic, kMagic, sizeof kMagic) != 0) return bad("it does not start as an index does");
  if (h.version > kFormatVersion)
    return fail(ErrorCode::bundle_version,
                fmt::format("{} has format {}, this klab reads up to {}", source, h.version, kFormatVersion),
                "use the klab version that wrote it, or a newer one");
  if (h.version < 1 || h.chunk_size != kChunkSize)
    return bad(fmt::format("version {} with chunks of {} bytes", h.version, h.chunk_size));

  // Each count is bounded by the length first, so the sum below cannot wrap.
  const std::uint64_t body = bytes.size() - sizeof(Header);
  if (h.chunks > body / sizeof(ChunkRecord) || h.lists > body / 8 || h.numbers > body / 4 ||
      h.chunks * sizeof(ChunkRecord) + h.lists * 8 + h.numbers * 4 != body)
    return bad(fmt::format("{} chunks, {} lists and {} chunk numbers do not make {} bytes", h.chunks, h.lists,
                           h.numbers, bytes.size()));
  if (h.chunks >= kZeroChunk || h.lists >= kNoList) return bad("more chunks or lists than can be numbered");

  Index index;
  index.pack_size = h.pack_size;
  index.chunks.reserve(h.chunks);
  std::uint64_t end = 0;
  for (std::uint64_t i = 0; i < h.chunks; ++i) {
    const auto c = take<ChunkRecord>(p);
    if (c.size == 0 || c.size > kChunkSize || c.zero != 0)
      return bad(fmt::format("chunk {} claims {} bytes", i, c.size));
    // Chunks follow each other without gaps: no two overlap and no byte of data.pack is unaccounted for.
    if (c.offset != end) return bad(fmt::format("chunk {} is at {}, not at {}", i, c.offset, end));
    end = align_up(c.offset + c.size);
    index.chunks.push_back({{c.hash_low, c.hash_high}, c.offset, c.size});
  }
  if (end != h.pack_size) return bad(fmt::format("its chunks end at {}, not at {}", end, h.pack_size));

  index.lists.reserve(h.lists);
  std::uint64_t first = 0;
  for (std::uint64_t i = 0; i < h.lists; ++i) {
    const auto size = take<std::uint64_t>(p);
    if (size > kMaxListSize || chunks_of(size) > h.numbers - first)
      return bad(fmt::format("list {} claims {} bytes, more than its chunk numbers allow", i, size));
    index.lists.push_back({size, first});
    first += chunks_of(size);
  }
  if (first != h.numbers) return bad(fmt::format("lists use {} of {} chunk numbers", first, h.numbers));

  index.numbers.resize(h.numbers);
  if (h.numbers != 0) std::memcpy(index.numbers.data(), p, h.numbers * 4);
  for (std::size_t l = 0; l < index.lists.size(); ++l) {
    const IndexList& list = index.lists[l];
    for (std::uint64_t c = 0; c < chunks_of(list.size); ++c) {
      const std::uint32_t number = index.numbers[list.first + c];
      if (number == kZeroChunk) continue;
      if (number >= h.chunks) return bad(fmt::format("list {} names chunk {} of {}", l, number, h.chunks));
      if (index.chunks[number].size != chunk_bytes(list.size, c))
        return bad(fmt::format("list {} has {} bytes at place {}, chunk {} has {}", l,
                               chunk_bytes(list.size, c), c, number, index.chunks[number].size));
    }
  }
  return index;
}

Status check_lists(const Manifest& manifest, const Index& index, std::string_view source) {
  for (std::size_t d = 0; d < manifest.dispatches.size(); ++d)
    for (const Region& r : manifest.dispatches[d].regions)
      for (const std::uint32_t list : {r.pre, r.post}) {
        if (list == kNoList) continue;
        if (list >= index.lists.size())
          return fail(ErrorCode::invalid_data, fmt::format("{}: dispatch {}, region {} names list {} of {}",
                                                           source, d, r.id, list, index.lists.size()));
        if (index.lists[list].size != r.size)
          return fail(ErrorCode::invalid_data,
                      fmt::format("{}: dispatch {}, region {} is {} bytes, its list {} has {}", source, d,
                                  r.id, r.size, list, index.lists[list].size));
      }
  return {};
}

}  // namespace klab::bundle
