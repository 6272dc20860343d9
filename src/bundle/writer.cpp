// SPDX-License-Identifier: Apache-2.0
// Not here: where the folder lives until it is whole (staging.h), the index's bytes (index.h).
#include "bundle/writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <unordered_map>

#include <fmt/format.h>

#include "base/hash.h"
#include "base/ids.h"
#include "bundle/index.h"
#include "bundle/staging.h"

namespace klab::bundle {
namespace {

// Dirty bytes after which the kernel is told to start writing, so that the final fsync finds little to do.
constexpr std::uint64_t kFlushBytes = 16ull << 20;
constexpr std::uint64_t kMaxListSize = 1ull << 48;

bool all_zero(std::span<const std::byte> bytes) {
  // Comparing a buffer with itself shifted by one byte is a memcmp, which is as fast as it gets.
  return bytes.empty() ||
         (bytes[0] == std::byte{0} && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

struct ChunkKey {
  Hash128 hash;
  std::uint32_t size;
  bool operator==(const ChunkKey&) const = default;
};
struct ChunkKeyHash {
  std::size_t operator()(const ChunkKey& k) const noexcept { return std::hash<Hash128>()(k.hash) ^ k.size; }
};

}  // namespace

struct Writer::Impl {
  explicit Impl(Staging s) : staging(std::move(s)) {}

  Staging staging;
  Options options;
  Fd pack;
  Index index;
  std::unordered_map<ChunkKey, std::uint32_t, ChunkKeyHash> known;
  std::vector<CodeObject> code;
  std::uint64_t flushed = 0;
  std::uint64_t logical = 0;

  Status write_chunk(std::span<const std::byte> bytes) {
    std::uint64_t at = index.pack_size;
    while (!bytes.empty()) {
      const ssize_t n = ::pwrite(pack.get(), bytes.data(), bytes.size(), static_cast<off_t>(at));
      if (n < 0) {
        if (errno == EINTR) continue;
        return fail_errno(errno, fmt::format("{}: write of data.pack at {}", staging.path().string(), at));
      }
      bytes = bytes.subspan(static_cast<std::size_t>(n));
      at += static_cast<std::uint64_t>(n);
    }
    return {};
  }

  Result<std::uint32_t> store(std::span<const std::byte> bytes) {
    const ChunkKey key{hash_bytes(bytes), static_cast<std::uint32_t>(bytes.size())};
    if (const auto it = known.find(key); it != known.end()) return it->second;
    const std::uint64_t end = align_up(index.pack_size + bytes.size());
    if (options.max_bytes != 0 && end > options.max_bytes)
      return fail(ErrorCode::cap_reached,
                  fmt::format("{}: its data would exceed the cap of {} bytes", staging.path().string(),
                              options.max_bytes),
                  "raise --max-bytes, or capture fewer regions");
    KLAB_TRY_VOID(write_chunk(bytes));
    const auto number = static_cast<std::uint32_t>(index.chunks.size());
    index.chunks.push_back({key.hash, index.pack_size, key.size});
    known.emplace(key, number);
    index.pack_size = end;
    if (end - flushed >= kFlushBytes) {
      // Only a hint: errors surface in write and fsync.
      (void)::sync_file_range(pack.get(), static_cast<off_t>(flushed), static_cast<off_t>(end - flushed),
                              SYNC_FILE_RANGE_WRITE);
      flushed = end;
    }
    return number;
  }
};

Writer::Writer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Writer::Writer(Writer&&) noexcept = default;
Writer& Writer::operator=(Writer&&) noexcept = default;
Writer::~Writer() = default;

Result<Writer> Writer::create(const fs::path& path, Options options) {
  KLAB_TRY(auto staging, Staging::create(path, options.replace));
  auto impl = std::make_unique<Impl>(std::move(staging));
  impl->options = options;
  KLAB_TRY(impl->pack, impl->staging.create_file("data.pack"));
  return Writer(std::move(impl));
}

Result<std::uint32_t> Writer::add_list(std::uint64_t size) {
  Index& index = impl_->index;
  if (size > kMaxListSize)
    return fail(ErrorCode::usage, fmt::format("a list of {} bytes; at most 2^48 can be stored", size));
  if (index.lists.size() + 1 >= kNoList)
    return fail(ErrorCode::cap_reached, "more lists than can be numbered");
  const auto number = static_cast<std::uint32_t>(index.lists.size());
  index.lists.push_back({size, index.numbers.size()});
  index.numbers.resize(index.numbers.size() + index.list_chunks(number), kZeroChunk);
  impl_->logical += size;
  return number;
}

Status Writer::put(std::uint32_t list, std::uint64_t chunk, std::span<const std::byte> bytes) {
  Index& index = impl_->index;
  if (list >= index.lists.size() || chunk >= index.list_chunks(list))
    return fail(ErrorCode::usage, fmt::format("list {} has no chunk {}", list, chunk));
  const std::uint64_t expected = chunk_bytes(index.lists[list].size, chunk);
  if (bytes.size() != expected)
    return fail(ErrorCode::usage,
                fmt::format("chunk {} of list {} is {} bytes, not {}", chunk, list, bytes.size(), expected));
  std::uint32_t number = kZeroChunk;
  if (!all_zero(bytes)) {
    KLAB_TRY(number, impl_->store(bytes));
  }
  index.numbers[index.lists[list].first + chunk] = number;
  return {};
}

Result<std::uint32_t> Writer::add_code(std::string_view kind, std::string_view extension,
                                       std::span<const std::byte> bytes) {
  const bool plain = !extension.empty() && extension.size() <= 16 &&
                     std::all_of(extension.begin(), extension.end(),
                                 [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); });
  if (!plain) return fail(ErrorCode::usage, fmt::format("\"{}\" is no file extension", extension));
  CodeObject object;
  object.kind = kind;
  object.size = bytes.size();
  object.hash = to_string(hash_bytes(bytes));
  auto& code = impl_->code;
  for (std::size_t i = 0; i < code.size(); ++i)
    if (code[i].kind == kind && code[i].size == object.size && code[i].hash == object.hash)
      return static_cast<std::uint32_t>(i);
  object.file = fmt::format("code/{}.{}", code.size(), extension);
  KLAB_TRY_VOID(impl_->staging.write_file(object.file, bytes));
  code.push_back(std::move(object));
  return static_cast<std::uint32_t>(code.size() - 1);
}

std::vector<CodeObject>& Writer::code() { return impl_->code; }

Result<Writer::Sealed> Writer::seal(Manifest manifest) {
  Impl& w = *impl_;
  const std::string index_text = write_index(w.index);
  manifest.format = kFormatVersion;
  manifest.code = w.code;
  manifest.index_hash = to_string(hash_text(index_text));
  if (manifest.made_by.empty()) manifest.made_by = "klab " KLAB_VERSION;
  if (manifest.made_at.empty()) manifest.made_at = utc_now();
  // Nothing is sealed that a reader would refuse.
  KLAB_TRY_VOID(check_manifest(manifest, w.staging.path().string()));
  KLAB_TRY_VOID(check_lists(manifest, w.index, w.staging.path().string()));

  // The last chunk's padding; those before were holes all along.
  if (::ftruncate(w.pack.get(), static_cast<off_t>(w.index.pack_size)) != 0 || ::fsync(w.pack.get()) != 0)
    return fail_errno(errno, (w.staging.path() / "data.pack").string());
  KLAB_TRY_VOID(w.staging.write_file("data.idx", std::as_bytes(std::span(index_text))));
  const std::string text = write_manifest(manifest);
  KLAB_TRY_VOID(w.staging.write_file("manifest.json", std::as_bytes(std::span(text))));
  KLAB_TRY_VOID(w.staging.publish());
  w.pack = Fd();
  return Sealed{w.staging.path(), w.index.pack_size, w.logical};
}

Status update_manifest(const fs::path& bundle, const Manifest& manifest) {
  const fs::path file = bundle / "manifest.json";
  KLAB_TRY(auto text, read_file(file, kMaxManifest));
  KLAB_TRY(auto old, read_manifest(text, file.string()));
  bool same = old.index_hash == manifest.index_hash && old.code.size() == manifest.code.size() &&
              manifest.format == old.format;
  for (std::size_t i = 0; same && i < old.code.size(); ++i)
    same = old.code[i].hash == manifest.code[i].hash && old.code[i].file == manifest.code[i].file;
  if (!same)
    return fail(ErrorCode::usage, fmt::format("{}: the new manifest belongs to other data", file.string()),
                "read the bundle again and repeat the change");
  KLAB_TRY_VOID(check_manifest(manifest, file.string()));
  return write_file_atomic(file, write_manifest(manifest));
}

}  // namespace klab::bundle
