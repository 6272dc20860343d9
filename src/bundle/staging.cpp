// SPDX-License-Identifier: Apache-2.0
#include "bundle/staging.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <optional>

#include <fmt/format.h>

#include "base/ids.h"

namespace klab::bundle {
namespace {

constexpr std::string_view kSuffix = ".partial";

// Start of a process in clock ticks since boot: with the pid, it names a process uniquely until the next
// boot.
std::optional<std::uint64_t> start_time(pid_t pid) {
  const auto text = read_file(fmt::format("/proc/{}/stat", pid), 1 << 16);
  if (!text) return std::nullopt;
  // The second field is the command in parentheses and may hold anything; fields are counted after its end.
  std::size_t at = text->rfind(')');
  for (int field = 2; field < 22 && at != std::string::npos; ++field) at = text->find(' ', at + 1);
  if (at == std::string::npos) return std::nullopt;
  std::uint64_t ticks = 0;
  const auto done = std::from_chars(text->data() + at + 1, text->data() + text->size(), ticks);
  return done.ec == std::errc() ? std::optional(ticks) : std::nullopt;
}

struct Owner {
  pid_t pid = 0;
  std::uint64_t start = 0;
};

// Owner of `.NAME.PID-START-XXXX.partial`, or nothing when the name is not one of ours.
std::optional<Owner> owner_of(std::string_view name) {
  if (!name.starts_with('.') || !name.ends_with(kSuffix)) return std::nullopt;
  name.remove_suffix(kSuffix.size());
  const std::size_t dot = name.rfind('.');
  if (dot == 0 || dot == std::string_view::npos) return std::nullopt;
  name.remove_prefix(dot + 1);
  Owner owner;
  const char* end = name.data() + name.size();
  auto pid = std::from_chars(name.data(), end, owner.pid);
  if (pid.ec != std::errc() || pid.ptr == end || *pid.ptr != '-' || owner.pid <= 0) return std::nullopt;
  auto start = std::from_chars(pid.ptr + 1, end, owner.start);
  if (start.ec != std::errc() || start.ptr == end || *start.ptr != '-' || end - start.ptr != 5)
    return std::nullopt;
  return owner;
}

bool alive(const Owner& owner) {
  const auto start = start_time(owner.pid);
  return start && *start == owner.start;
}

bool there(const fs::path& path) {
  struct stat st {};
  return ::lstat(path.c_str(), &st) == 0;
}

int rename_with(const fs::path& from, const fs::path& to, unsigned flags) {
  return ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags);
}

tl::unexpected<Error> already_there(const fs::path& path, bool replace) {
  if (!replace)
    return fail(ErrorCode::usage, fmt::format("{} exists already", path.string()),
                "choose another name, or allow it to be replaced");
  return fail(ErrorCode::usage, fmt::format("{} exists and is not a bundle; it is left alone", path.string()),
              "choose another name");
}

}  // namespace

Result<fs::path> bundle_path(const fs::path& path) {
  fs::path clean = path.lexically_normal();
  if (!clean.has_filename()) clean = clean.parent_path();
  const auto name = clean.filename().string();
  if (name.empty() || name == "." || name == ".." || name == "/")
    return fail(ErrorCode::usage, fmt::format("\"{}\" does not name a bundle", path.string()),
                "give a path such as saxpy.klab");
  if (name.size() > 200)
    return fail(ErrorCode::usage, fmt::format("{} is too long a name for a bundle", name),
                "use at most 200 bytes");
  return clean;
}

Result<fs::path> partial_path(const fs::path& path) {
  const auto start = start_time(::getpid());
  if (!start) return fail(ErrorCode::environment, "/proc/self/stat cannot be read", "mount /proc");
  return path.parent_path() /
         fmt::format(".{}.{}-{}-{}{}", path.filename().string(), ::getpid(), *start, new_id(4), kSuffix);
}

Status rename_new(const fs::path& from, const fs::path& to) {
  if (rename_with(from, to, RENAME_NOREPLACE) == 0) return {};
  // A filesystem without the flag: look first, and leave the small gap.
  if (errno == EINVAL && !there(to) && ::rename(from.c_str(), to.c_str()) == 0) return {};
  if (errno == EEXIST || there(to)) return already_there(to, false);
  return fail_errno(errno, to.string());
}

bool looks_like_bundle(const fs::path& path) {
  std::error_code ec;
  if (fs::symlink_status(path, ec).type() != fs::file_type::directory) return false;
  bool manifest = false;
  auto ours = [&](const fs::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    const auto type = entry.symlink_status(ec).type();
    if (name == "code") return type == fs::file_type::directory;
    if (name == "manifest.json") manifest = true;
    // A killed update_manifest may have left its temporary file.
    const bool temporary = name.starts_with(".manifest.json.") && name.ends_with(".klab-tmp");
    return type == fs::file_type::regular &&
           (temporary || name == "manifest.json" || name == "data.idx" || name == "data.pack");
  };
  fs::directory_iterator it(path, ec);
  for (; !ec && it != fs::directory_iterator(); it.increment(ec))
    if (!ours(*it)) return false;
  return !ec && manifest;
}

Result<Staging> Staging::create(const fs::path& path, bool replace) {
  Staging s;
  KLAB_TRY(s.path_, bundle_path(path));
  if (there(s.path_) && !(replace && looks_like_bundle(s.path_))) return already_there(s.path_, replace);
  KLAB_TRY_VOID(make_folders(s.path_.parent_path()));
  KLAB_TRY(const fs::path folder, partial_path(s.path_));
  if (::mkdir(folder.c_str(), 0700) != 0) return fail_errno(errno, folder.string());
  s.folder_ = folder;
  s.owner_ = ::getpid();
  s.replace_ = replace;
  // Readable even under a umask that takes the owner's bits.
  if (::chmod(folder.c_str(), 0700) != 0) return fail_errno(errno, folder.string());
  s.lock_ = Fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!s.lock_) return fail_errno(errno, folder.string());
  // The name tells who owns it in this pid namespace; the lock tells it across namespaces. Filesystems
  // without locks rely on the name.
  (void)::flock(s.lock_.get(), LOCK_EX | LOCK_NB);
  if (::mkdir((folder / "code").c_str(), 0700) != 0) return fail_errno(errno, (folder / "code").string());
  return s;
}

Staging::Staging(Staging&& other) noexcept
    : path_(std::move(other.path_)),
      folder_(std::move(other.folder_)),
      replace_(other.replace_),
      owner_(other.owner_),
      lock_(std::move(other.lock_)) {
  other.folder_.clear();
}
Staging& Staging::operator=(Staging&& other) noexcept {
  if (this != &other) {
    remove();
    path_ = std::move(other.path_);
    folder_ = std::move(other.folder_);
    other.folder_.clear();
    replace_ = other.replace_;
    owner_ = other.owner_;
    lock_ = std::move(other.lock_);
  }
  return *this;
}
Staging::~Staging() { remove(); }

void Staging::remove() {
  if (folder_.empty() || owner_ != ::getpid()) return;
  std::error_code ec;
  fs::remove_all(folder_, ec);
  folder_.clear();
}

Result<Fd> Staging::create_file(const fs::path& name) const {
  const fs::path file = folder_ / name;
  Fd fd(::open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return fail_errno(errno, file.string());
  return fd;
}

Status Staging::write_file(const fs::path& name, std::span<const std::byte> bytes) const {
  KLAB_TRY(Fd fd, create_file(name));
  if (auto s = write_all(fd.get(), bytes); !s) {
    Error error = s.error();
    error.what = fmt::format("{}: {}", (path_ / name).string(), error.what);
    return fail(std::move(error));
  }
  if (::fsync(fd.get()) != 0) return fail_errno(errno, (path_ / name).string());
  return {};
}

Status Staging::publish() {
  KLAB_TRY_VOID(sync_folder(folder_ / "code"));
  KLAB_TRY_VOID(sync_folder(folder_));
  const bool exchanged = replace_ && looks_like_bundle(path_);
  if (exchanged) {
    if (rename_with(folder_, path_, RENAME_EXCHANGE) != 0) return fail_errno(errno, path_.string());
  } else if (auto s = rename_new(folder_, path_); !s) {
    return replace_ && s.error().code == ErrorCode::usage ? already_there(path_, true) : fail(s.error());
  }
  if (auto s = sync_folder(path_.parent_path()); !s) {
    rename_with(path_, folder_, exchanged ? RENAME_EXCHANGE : RENAME_NOREPLACE);
    return s;
  }
  if (exchanged) {
    remove();  // the staging name now holds the replaced bundle
  } else {
    folder_.clear();
  }
  lock_ = Fd();
  return {};
}

int sweep_partial(const fs::path& folder) {
  int removed = 0;
  std::error_code ec;
  fs::directory_iterator it(folder.empty() ? fs::path(".") : folder, ec);
  std::vector<fs::path> dead;
  for (; !ec && it != fs::directory_iterator(); it.increment(ec)) {
    const auto owner = owner_of(it->path().filename().string());
    struct stat st {};
    if (!owner || alive(*owner) || ::lstat(it->path().c_str(), &st) != 0 ||
        !(S_ISDIR(st.st_mode) || S_ISREG(st.st_mode)) || st.st_uid != ::geteuid())
      continue;
    dead.push_back(it->path());
  }
  for (const fs::path& path : dead) {
    Fd lock(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
    if (lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) continue;
    std::error_code failed;
    fs::remove_all(path, failed);
    if (!failed) ++removed;
  }
  return removed;
}

}  // namespace klab::bundle
