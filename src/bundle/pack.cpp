// SPDX-License-Identifier: Apache-2.0
// Packed bundles: a header, one zstd frame of members in a fixed order, a hash of all that.
// docs/bundle-format.md.
#include "bundle/pack.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include <fmt/format.h>
#include <xxhash.h>
#include <zstd.h>

#include "base/hash.h"
#include "bundle/index.h"
#include "bundle/reader.h"
#include "bundle/staging.h"

namespace klab::bundle {
namespace {

constexpr char kMagic[8] = {'K', 'L', 'A', 'B', 'P', 'A', 'K', '\n'};
constexpr std::uint64_t kHeaderSize = 16, kTrailerSize = 16;
constexpr int kLevel = 3;
constexpr int kThreads = 2;
constexpr int kMaxWindowLog = 23;  // 8 MiB; a hostile frame may not ask for more memory
constexpr std::size_t kBuffer = 1 << 20;

struct CloseC {
  void operator()(ZSTD_CCtx* c) const { ZSTD_freeCCtx(c); }
};
struct CloseD {
  void operator()(ZSTD_DCtx* d) const { ZSTD_freeDCtx(d); }
};
struct CloseX {
  void operator()(XXH3_state_t* x) const { XXH3_freeState(x); }
};

// A hash over a stream; whole buffers go through base/hash.h.
class StreamHash {
 public:
  StreamHash() : state_(XXH3_createState()) { XXH3_128bits_reset(state_.get()); }
  void add(std::span<const std::byte> bytes) {
    XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
  }
  Hash128 get() const {
    const XXH128_hash_t h = XXH3_128bits_digest(state_.get());
    return {h.low64, h.high64};
  }

 private:
  std::unique_ptr<XXH3_state_t, CloseX> state_;
};

std::span<const std::byte> bytes_of(const auto& value) { return std::as_bytes(std::span(&value, 1)); }

std::vector<std::string> member_names(const Manifest& manifest) {
  std::vector<std::string> names{"manifest.json", "data.idx"};
  for (const CodeObject& c : manifest.code)
    if (std::find(names.begin(), names.end(), c.file) == names.end()) names.push_back(c.file);
  names.push_back("data.pack");
  return names;
}

class Packer {
 public:
  Packer(int fd, std::string shown) : fd_(fd), shown_(std::move(shown)), zstd_(ZSTD_createCCtx()) {
    ZSTD_CCtx_setParameter(zstd_.get(), ZSTD_c_compressionLevel, kLevel);
    ZSTD_CCtx_setParameter(zstd_.get(), ZSTD_c_nbWorkers,
                           kThreads);  // stays at one in a library without threads
  }

  Status begin() {
    std::byte header[kHeaderSize]{};
    std::memcpy(header, kMagic, sizeof kMagic);
    const std::uint32_t version = kFormatVersion;
    std::memcpy(header + 8, &version, sizeof version);
    return emit(header);
  }

  Status add(std::span<const std::byte> bytes) { return compress(bytes, ZSTD_e_continue); }

  Status end() {
    KLAB_TRY_VOID(compress({}, ZSTD_e_end));
    const Hash128 hash = hash_.get();
    KLAB_TRY_VOID(emit(bytes_of(hash.low)));
    return emit(bytes_of(hash.high));
  }

 private:
  Status compress(std::span<const std::byte> bytes, ZSTD_EndDirective directive) {
    ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
    for (;;) {
      ZSTD_outBuffer out{buffer_.data(), buffer_.size(), 0};
      const std::size_t left = ZSTD_compressStream2(zstd_.get(), &out, &in, directive);
      if (ZSTD_isError(left))
        return fail(ErrorCode::internal, fmt::format("zstd: {}", ZSTD_getErrorName(left)));
      KLAB_TRY_VOID(emit(std::span(buffer_).first(out.pos)));
      if (directive == ZSTD_e_end ? left == 0 : in.pos == in.size) return {};
    }
  }
  Status emit(std::span<const std::byte> bytes) {
    hash_.add(bytes);
    if (auto s = write_all(fd_, bytes); !s)
      return fail(
          {s.error().code, fmt::format("{}: {}", shown_, s.error().what), s.error().hint, s.error().vendor});
    return {};
  }

  int fd_;
  std::string shown_;
  std::unique_ptr<ZSTD_CCtx, CloseC> zstd_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(kBuffer);
  StreamHash hash_;
};

class Unpacker {
 public:
  Unpacker(Fd fd, std::uint64_t size, std::string shown, std::uint64_t max_bytes)
      : fd_(std::move(fd)),
        left_(size),
        shown_(std::move(shown)),
        allowed_(max_bytes),
        zstd_(ZSTD_createDCtx()) {
    ZSTD_DCtx_setParameter(zstd_.get(), ZSTD_d_windowLogMax, kMaxWindowLog);
  }

  tl::unexpected<Error> bad(std::string_view what) const {
    return fail(ErrorCode::invalid_data, fmt::format("{}: {}", shown_, what),
                "ask for the packed bundle again");
  }

  Status begin() {
    if (left_ < kHeaderSize + kTrailerSize) return bad("too short for a packed bundle");
    left_ -= kTrailerSize;
    KLAB_TRY_VOID(fill(kHeaderSize));
    std::uint32_t version = 0, zero = 0;
    std::memcpy(&version, in_.data() + 8, sizeof version);
    std::memcpy(&zero, in_.data() + 12, sizeof zero);
    if (std::memcmp(in_.data(), kMagic, sizeof kMagic) != 0) return bad("not a packed bundle");
    if (version > kFormatVersion)
      return fail(ErrorCode::bundle_version,
                  fmt::format("{} has format {}, this klab reads up to {}", shown_, version, kFormatVersion),
                  "use the klab version that wrote it, or a newer one");
    if (version < 1 || zero != 0) return bad("its header is damaged");
    filled_ = at_ = 0;
    return {};
  }

  /// The next member must be `name`; returns its size, at most `max_size`.
  Result<std::uint64_t> next(const std::string& name, std::uint64_t max_size) {
    std::uint16_t length = 0;
    KLAB_TRY_VOID(get(std::as_writable_bytes(std::span(&length, 1))));
    if (length != name.size()) return bad(fmt::format("{} does not come where it should", name));
    std::string found(length, '\0');
    KLAB_TRY_VOID(get(std::as_writable_bytes(std::span(found))));
    if (found != name) return bad(fmt::format("{} does not come where it should", name));
    std::uint64_t size = 0;
    KLAB_TRY_VOID(get(std::as_writable_bytes(std::span(&size, 1))));
    if (size > max_size)
      return bad(fmt::format("{} claims {} bytes, at most {} can be", name, size, max_size));
    if (size > allowed_)
      return fail(ErrorCode::cap_reached,
                  fmt::format("{}: {} of {} bytes exceeds what may be unpacked", shown_, name, size),
                  "raise the limit if you trust where it came from");
    allowed_ -= size;
    return size;
  }

  Status get(std::span<std::byte> bytes) {
    ZSTD_outBuffer out{bytes.data(), bytes.size(), 0};
    while (out.pos < out.size) {
      if (ended_) return bad("it ends too early");
      KLAB_TRY_VOID(step(out));
    }
    return {};
  }

  /// After the last member: nothing more comes, and the hash over the whole file agrees.
  Status end() {
    std::byte more{};
    while (!ended_) {
      ZSTD_outBuffer out{&more, 1, 0};
      KLAB_TRY_VOID(step(out));
      if (out.pos != 0) return bad("more follows its last member");
    }
    if (at_ != filled_ || left_ != 0) return bad("more follows its compressed data");
    const Hash128 expected = hash_.get();
    left_ = kTrailerSize;
    filled_ = at_ = 0;
    KLAB_TRY_VOID(fill(kTrailerSize));
    Hash128 stored;
    std::memcpy(&stored.low, in_.data(), 8);
    std::memcpy(&stored.high, in_.data() + 8, 8);
    if (stored != expected)
      return fail(ErrorCode::bundle_corrupt, fmt::format("{} does not agree with its hash", shown_),
                  "ask for the packed bundle again");
    return {};
  }

 private:
  Status step(ZSTD_outBuffer& out) {
    if (at_ == filled_) {
      filled_ = at_ = 0;
      KLAB_TRY_VOID(fill(kBuffer));
      if (filled_ == 0 && starved_) return bad("it ends too early");
      starved_ = filled_ == 0;  // once more without input: zstd may still hold output
    }
    ZSTD_inBuffer in{in_.data(), filled_, at_};
    const std::size_t code = ZSTD_decompressStream(zstd_.get(), &out, &in);
    if (ZSTD_isError(code)) return bad(fmt::format("zstd: {}", ZSTD_getErrorName(code)));
    at_ = in.pos;
    ended_ = code == 0;
    return {};
  }

  // Reads up to `most` bytes behind what is filled.
  Status fill(std::size_t most) {
    std::size_t want = static_cast<std::size_t>(std::min<std::uint64_t>({most, left_, kBuffer - filled_}));
    while (want != 0) {
      const ssize_t n = ::read(fd_.get(), in_.data() + filled_, want);
      if (n < 0) {
        if (errno == EINTR) continue;
        return fail_errno(errno, shown_);
      }
      if (n == 0) return bad("it became shorter while it was read");
      hash_.add(std::span(in_).subspan(filled_, static_cast<std::size_t>(n)));
      filled_ += static_cast<std::size_t>(n);
      want -= static_cast<std::size_t>(n);
      left_ -= static_cast<std::uint64_t>(n);
    }
    return {};
  }

  Fd fd_;
  std::uint64_t left_;  // bytes of the file still unread, without the trailer
  std::string shown_;
  std::uint64_t allowed_;  // bytes that members may still claim
  std::unique_ptr<ZSTD_DCtx, CloseD> zstd_;
  std::vector<std::byte> in_ = std::vector<std::byte>(kBuffer);
  std::size_t filled_ = 0, at_ = 0;
  bool ended_ = false, starved_ = false;
  StreamHash hash_;
};

Status pack_file(Packer& packer, const fs::path& folder, const std::string& name) {
  const fs::path file = folder / name;
  Fd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat st {};
  if (!fd || ::fstat(fd.get(), &st) != 0) return fail_errno(errno, file.string());
  const auto length = static_cast<std::uint16_t>(name.size());
  std::uint64_t left = static_cast<std::uint64_t>(st.st_size);
  KLAB_TRY_VOID(packer.add(bytes_of(length)));
  KLAB_TRY_VOID(packer.add(std::as_bytes(std::span(name))));
  KLAB_TRY_VOID(packer.add(bytes_of(left)));
  std::vector<std::byte> buffer(kBuffer);
  while (left != 0) {
    const ssize_t n = ::read(fd.get(), buffer.data(), std::min<std::uint64_t>(buffer.size(), left));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno(errno, file.string());
    if (n == 0)
      return fail(ErrorCode::bundle_corrupt,
                  fmt::format("{} became shorter while it was read", file.string()));
    KLAB_TRY_VOID(packer.add(std::span(buffer).first(static_cast<std::size_t>(n))));
    left -= static_cast<std::uint64_t>(n);
  }
  return {};
}

Status unpack_file(Unpacker& in, const Staging& staging, const std::string& name, std::uint64_t size) {
  KLAB_TRY(Fd fd, staging.create_file(name));
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min<std::uint64_t>(size, kBuffer)));
  while (size != 0) {
    const auto part =
        std::span(buffer).first(static_cast<std::size_t>(std::min<std::uint64_t>(size, kBuffer)));
    KLAB_TRY_VOID(in.get(part));
    if (auto s = write_all(fd.get(), part); !s)
      return fail({s.error().code, fmt::format("{}: {}", (staging.path() / name).string(), s.error().what),
                   s.error().hint, s.error().vendor});
    size -= part.size();
  }
  if (::fsync(fd.get()) != 0) return fail_errno(errno, (staging.path() / name).string());
  return {};
}

Result<Manifest> unpack_manifest(Unpacker& in, const Staging& staging, const std::string& shown) {
  KLAB_TRY(std::uint64_t size, in.next("manifest.json", kMaxManifest));
  std::string text;
  while (size != 0) {  // grows with what really comes, not with what is claimed
    const std::size_t part = static_cast<std::size_t>(std::min<std::uint64_t>(size, kBuffer));
    text.resize(text.size() + part);
    KLAB_TRY_VOID(in.get(std::as_writable_bytes(std::span(text).last(part))));
    size -= part;
  }
  KLAB_TRY(auto manifest, read_manifest(text, shown + ": manifest.json"));
  KLAB_TRY_VOID(staging.write_file("manifest.json", std::as_bytes(std::span(text))));
  return manifest;
}

}  // namespace

Status pack(const fs::path& bundle, const fs::path& file) {
  KLAB_TRY(auto reader, Reader::open(bundle));
  KLAB_TRY_VOID(reader.verify());
  KLAB_TRY(const fs::path target, bundle_path(file));
  std::error_code ec;
  if (fs::exists(fs::symlink_status(target, ec)))
    return fail(ErrorCode::usage, fmt::format("{} exists already", target.string()), "choose another name");
  KLAB_TRY(const fs::path partial, partial_path(target));
  Fd fd(::open(partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) return fail_errno(errno, partial.string());
  (void)::flock(fd.get(), LOCK_EX | LOCK_NB);  // as a staging folder is
  auto write = [&]() -> Status {
    Packer packer(fd.get(), target.string());
    KLAB_TRY_VOID(packer.begin());
    for (const std::string& name : member_names(reader.manifest()))
      KLAB_TRY_VOID(pack_file(packer, bundle, name));
    KLAB_TRY_VOID(packer.end());
    if (::fsync(fd.get()) != 0) return fail_errno(errno, target.string());
    KLAB_TRY_VOID(rename_new(partial, target));
    return sync_folder(target.parent_path());
  };
  auto written = write();
  if (!written) ::unlink(partial.c_str());
  return written;
}

Status unpack(const fs::path& file, const fs::path& bundle, std::uint64_t max_bytes) {
  Fd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat st {};
  if (!fd || ::fstat(fd.get(), &st) != 0) return fail_errno(errno, file.string());
  if (!S_ISREG(st.st_mode))
    return fail(ErrorCode::invalid_data, fmt::format("{} is not a file", file.string()));
  Unpacker in(std::move(fd), static_cast<std::uint64_t>(st.st_size), file.string(), max_bytes);
  KLAB_TRY_VOID(in.begin());

  KLAB_TRY(auto staging, Staging::create(bundle, false));
  KLAB_TRY(const auto manifest, unpack_manifest(in, staging, file.string()));
  for (const std::string& name : member_names(manifest)) {
    if (name == "manifest.json") continue;
    std::uint64_t most = ~0ull;  // `max_bytes` bounds it
    for (const CodeObject& c : manifest.code)
      if (c.file == name) most = c.size;
    KLAB_TRY(const std::uint64_t size, in.next(name, most));
    KLAB_TRY_VOID(unpack_file(in, staging, name, size));
  }
  KLAB_TRY_VOID(in.end());
  {
    auto reader = Reader::open(staging.folder());
    auto verified = reader ? reader->verify() : fail(reader.error());
    if (!verified) {
      Error error = verified.error();
      error.what = fmt::format("{} holds a damaged bundle: {}", file.string(), error.what);
      return fail(std::move(error));
    }
  }
  return staging.publish();
}

}  // namespace klab::bundle
