// SPDX-License-Identifier: Apache-2.0
// Not here: what the manifest and the index must satisfy (manifest_check.cpp, index.cpp).
#include "bundle/reader.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <unordered_set>

#include <fmt/format.h>

#include "bundle/index.h"

namespace klab::bundle {
namespace {

constexpr std::uint64_t kMaxIndex = 8ull << 30;

alignas(kPackAlignment) constinit std::byte zeros[kChunkSize]{};  // never written: .bss, one shared page

tl::unexpected<Error> corrupt(std::string what) {
  return fail(ErrorCode::bundle_corrupt, std::move(what), "capture again, or take the bundle from a copy");
}

// Neither a symbolic link nor a pipe: a bundle from elsewhere must not lead out of its folder or make us
// wait.
Result<Fd> open_in(int folder, const char* name, const fs::path& shown, std::uint64_t& size) {
  Fd fd(::openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd && errno == ELOOP)
    return fail(ErrorCode::invalid_data, fmt::format("{} is a symbolic link", shown.string()));
  if (!fd) return fail_errno(errno, shown.string());
  struct stat st {};
  if (::fstat(fd.get(), &st) != 0) return fail_errno(errno, shown.string());
  if (!S_ISREG(st.st_mode))
    return fail(ErrorCode::invalid_data, fmt::format("{} is not a file", shown.string()));
  size = static_cast<std::uint64_t>(st.st_size);
  return fd;
}

Status read_exact(int fd, std::uint64_t offset, std::span<std::byte> out, const fs::path& shown) {
  while (!out.empty()) {
    const ssize_t n = ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
    if (n < 0) {
      if (errno == EINTR) continue;
      return fail_errno(errno, shown.string());
    }
    if (n == 0) return corrupt(fmt::format("{} ends at byte {}; it was cut off", shown.string(), offset));
    out = out.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return {};
}

template <class Container>
Result<Container> read_whole(int folder, const char* name, const fs::path& shown, std::uint64_t max_bytes) {
  std::uint64_t size = 0;
  KLAB_TRY(Fd fd, open_in(folder, name, shown, size));
  if (size > max_bytes)
    return fail(ErrorCode::invalid_data,
                fmt::format("{} is {} bytes; at most {} are read", shown.string(), size, max_bytes));
  Container bytes(static_cast<std::size_t>(size), typename Container::value_type{});
  KLAB_TRY_VOID(read_exact(fd.get(), 0, std::as_writable_bytes(std::span(bytes)), shown));
  return bytes;
}

}  // namespace

struct Reader::Impl {
  fs::path path;
  Fd folder, pack;
  Manifest manifest;
  Index index;
  std::byte* mapped = nullptr;
  std::unique_ptr<std::atomic<bool>[]> checked;  // per stored chunk

  ~Impl() {
    if (mapped != nullptr) ::munmap(mapped, index.pack_size);
  }

  std::uint32_t number(std::uint32_t list, std::uint64_t chunk) const {
    KLAB_CHECK(list < index.lists.size() && chunk < index.list_chunks(list));
    return index.numbers[index.lists[list].first + chunk];
  }

  std::string chunk_name(std::uint32_t n) const {
    return fmt::format("{}: chunk {} at {}", (path / "data.pack").string(), n, index.chunks[n].offset);
  }

  // Reading a mapping beyond the end of a file that was cut off since would be SIGBUS, not an error.
  Status still_whole() const {
    struct stat st {};
    if (::fstat(pack.get(), &st) != 0) return fail_errno(errno, (path / "data.pack").string());
    if (static_cast<std::uint64_t>(st.st_size) < index.pack_size)
      return corrupt(fmt::format("{} was cut off to {} bytes while in use, its index says {}",
                                 (path / "data.pack").string(), st.st_size, index.pack_size));
    return {};
  }

  // `bytes` is the chunk with its padding.
  Status check(std::uint32_t n, std::span<const std::byte> bytes) const {
    const IndexChunk& c = index.chunks[n];
    if (hash_bytes(bytes.first(c.size)) != c.hash)
      return corrupt(chunk_name(n) + " does not agree with its hash");
    const auto padding = bytes.subspan(c.size);
    if (std::any_of(padding.begin(), padding.end(), [](std::byte b) { return b != std::byte{0}; }))
      return corrupt(chunk_name(n) + " has other bytes than zeros after it");
    checked[n].store(true, std::memory_order_release);
    return {};
  }

  Result<std::span<const std::byte>> stored(std::uint32_t n) const {
    const IndexChunk& c = index.chunks[n];
    KLAB_TRY_VOID(still_whole());
    if (!checked[n].load(std::memory_order_acquire))
      KLAB_TRY_VOID(check(n, {mapped + c.offset, align_up(c.size)}));
    return std::span<const std::byte>(mapped + c.offset, c.size);
  }

  Status load() {
    folder = Fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder && errno == ENOTDIR)
      return fail(ErrorCode::invalid_data, fmt::format("{} is not a bundle folder", path.string()),
                  "a packed bundle is unpacked first: klab bundle unpack");
    if (!folder) return fail_errno(errno, path.string());

    const fs::path manifest_path = path / "manifest.json", index_path = path / "data.idx",
                   pack_path = path / "data.pack";
    KLAB_TRY(const auto text,
             read_whole<std::string>(folder.get(), "manifest.json", manifest_path, kMaxManifest));
    KLAB_TRY(manifest, read_manifest(text, manifest_path.string()));

    KLAB_TRY(const auto bytes,
             read_whole<std::vector<std::byte>>(folder.get(), "data.idx", index_path, kMaxIndex));
    if (to_string(hash_bytes(bytes)) != manifest.index_hash)
      return corrupt(fmt::format("{} does not agree with its hash in the manifest", index_path.string()));
    KLAB_TRY(index, read_index(bytes, index_path.string()));
    KLAB_TRY_VOID(check_lists(manifest, index, manifest_path.string()));

    std::uint64_t size = 0;
    KLAB_TRY(pack, open_in(folder.get(), "data.pack", pack_path, size));
    if (size != index.pack_size)
      return corrupt(
          fmt::format("{} is {} bytes, its index says {}", pack_path.string(), size, index.pack_size));
    if (size != 0) {
      void* p = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, pack.get(), 0);
      if (p == MAP_FAILED) return fail_errno(errno, fmt::format("{}: mmap", pack_path.string()));
      mapped = static_cast<std::byte*>(p);
    }
    checked = std::make_unique<std::atomic<bool>[]>(index.chunks.size());
    return {};
  }
};

Reader::Reader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Reader::Reader(Reader&&) noexcept = default;
Reader& Reader::operator=(Reader&&) noexcept = default;
Reader::~Reader() = default;

Result<Reader> Reader::open(const fs::path& path) {
  for (int attempt = 0;; ++attempt) {
    auto impl = std::make_unique<Impl>();
    impl->path = path;
    auto loaded = impl->load();
    if (loaded) return Reader(std::move(impl));
    // A bundle replaced while we opened it is a mixture or half gone; the new one is whole.
    struct stat opened {
    }, now{};
    const bool replaced = impl->folder && ::fstat(impl->folder.get(), &opened) == 0 &&
                          ::stat(path.c_str(), &now) == 0 && opened.st_ino != now.st_ino;
    if (!replaced || attempt == 3) return fail(loaded.error());
  }
}

const Manifest& Reader::manifest() const { return impl_->manifest; }
const fs::path& Reader::path() const { return impl_->path; }

std::uint64_t Reader::list_size(std::uint32_t list) const {
  KLAB_CHECK(list < impl_->index.lists.size());
  return impl_->index.lists[list].size;
}
std::uint64_t Reader::chunk_count(std::uint32_t list) const {
  KLAB_CHECK(list < impl_->index.lists.size());
  return impl_->index.list_chunks(list);
}
Hash128 Reader::chunk_hash(std::uint32_t list, std::uint64_t chunk) const {
  const std::uint32_t n = impl_->number(list, chunk);
  return n == kZeroChunk ? Hash128{} : impl_->index.chunks[n].hash;
}

Result<std::span<const std::byte>> Reader::chunk(std::uint32_t list, std::uint64_t chunk) const {
  const std::uint32_t n = impl_->number(list, chunk);
  if (n != kZeroChunk) return impl_->stored(n);
  return std::span<const std::byte>(zeros, chunk_bytes(impl_->index.lists[list].size, chunk));
}

Status Reader::read(std::uint32_t list, std::uint64_t offset, std::span<std::byte> out) const {
  if (list >= impl_->index.lists.size()) return fail(ErrorCode::usage, fmt::format("no list {}", list));
  const std::uint64_t size = impl_->index.lists[list].size;
  if (offset > size || out.size() > size - offset)
    return fail(ErrorCode::usage, fmt::format("{} bytes at {} lie outside list {} of {} bytes", out.size(),
                                              offset, list, size));
  while (!out.empty()) {
    KLAB_TRY(const auto bytes, chunk(list, offset / kChunkSize));
    const std::size_t at = offset % kChunkSize;
    const std::size_t n = std::min(out.size(), bytes.size() - at);
    std::memcpy(out.data(), bytes.data() + at, n);
    out = out.subspan(n);
    offset += n;
  }
  return {};
}

Result<std::vector<std::byte>> Reader::code(std::uint32_t i) const {
  if (i >= impl_->manifest.code.size()) return fail(ErrorCode::usage, fmt::format("no code object {}", i));
  const CodeObject& object = impl_->manifest.code[i];
  const fs::path shown = impl_->path / object.file;
  Fd folder(::openat(impl_->folder.get(), "code", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder) return fail_errno(errno, (impl_->path / "code").string());
  KLAB_TRY(auto bytes,
           read_whole<std::vector<std::byte>>(folder.get(), object.file.c_str() + 5, shown, object.size));
  if (bytes.size() != object.size)
    return corrupt(
        fmt::format("{} is {} bytes, the manifest says {}", shown.string(), bytes.size(), object.size));
  if (to_string(hash_bytes(bytes)) != object.hash)
    return corrupt(fmt::format("{} does not agree with its hash", shown.string()));
  return bytes;
}

Result<Reader::Verified> Reader::verify() const {
  const Index& index = impl_->index;
  Verified v;
  // Read rather than mapped: a bad disk is then an error with a name, not SIGBUS.
  std::uint64_t largest = 0;
  for (const IndexChunk& c : index.chunks) largest = std::max(largest, align_up(c.size));
  std::vector<std::byte> buffer(static_cast<std::size_t>(largest));
  for (std::uint32_t n = 0; n < index.chunks.size(); ++n) {
    const auto bytes = std::span(buffer).first(align_up(index.chunks[n].size));
    KLAB_TRY_VOID(read_exact(impl_->pack.get(), index.chunks[n].offset, bytes, impl_->path / "data.pack"));
    KLAB_TRY_VOID(impl_->check(n, bytes));
  }
  v.chunks = index.chunks.size();
  v.stored_bytes = index.pack_size;
  for (const IndexList& l : index.lists) v.logical_bytes += l.size;
  for (std::uint32_t i = 0; i < impl_->manifest.code.size(); ++i) {
    KLAB_TRY(const auto bytes, code(i));
    (void)bytes;
    ++v.code_objects;
  }
  return v;
}

}  // namespace klab::bundle
