// SPDX-License-Identifier: Apache-2.0
#include "base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include <fmt/format.h>

#include "base/environment.h"
#include "base/ids.h"

namespace klab {

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}
Fd::~Fd() {
  if (fd_ >= 0) ::close(fd_);
}

Result<std::string> read_file(const fs::path& path, std::uint64_t max_bytes) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return fail_errno(errno, path.string());
  struct stat st {};
  if (::fstat(fd.get(), &st) != 0) return fail_errno(errno, path.string());
  if (S_ISDIR(st.st_mode)) return fail_errno(EISDIR, path.string());
  std::string text;
  if (st.st_size > 0 && static_cast<std::uint64_t>(st.st_size) <= max_bytes)
    text.reserve(static_cast<std::size_t>(st.st_size));
  char buffer[1 << 16];
  for (;;) {
    const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
    if (n < 0) {
      if (errno == EINTR) continue;
      return fail_errno(errno, path.string());
    }
    if (n == 0) return text;
    if (text.size() + static_cast<std::size_t>(n) > max_bytes)
      return fail(ErrorCode::cap_reached,
                  fmt::format("{} is longer than {} bytes", path.string(), max_bytes));
    text.append(buffer, static_cast<std::size_t>(n));
  }
}

Status write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0) {
      if (errno == EINTR) continue;
      return fail_errno(errno, "write");
    }
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

Status sync_folder(const fs::path& path) {
  Fd fd(::open(path.empty() ? "." : path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return fail_errno(errno, path.string());
  // Some filesystems refuse to fsync a folder; the rename is then as durable as they make it.
  if (::fsync(fd.get()) != 0 && errno != EINVAL && errno != ENOTSUP) return fail_errno(errno, path.string());
  return {};
}

Status write_file_atomic(const fs::path& path, std::string_view text, unsigned mode, bool durable) {
  const fs::path temporary =
      path.parent_path() / fmt::format(".{}.{}.klab-tmp", path.filename().string(), new_id(8));
  Fd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) return fail_errno(errno, temporary.string());
  auto give_up = [&](tl::unexpected<Error> error) {
    ::unlink(temporary.c_str());
    error.value().what = path.string() + ": " + error.value().what;
    return error;
  };
  if (auto s = write_all(fd.get(), std::as_bytes(std::span(text))); !s) return give_up(fail(s.error()));
  if (::fchmod(fd.get(), mode) != 0) return give_up(fail_errno(errno, "fchmod"));
  if (durable && ::fsync(fd.get()) != 0) return give_up(fail_errno(errno, "fsync"));
  if (::rename(temporary.c_str(), path.c_str()) != 0) return give_up(fail_errno(errno, "rename"));
  return durable ? sync_folder(path.parent_path()) : Status{};
}

Status make_folders(const fs::path& path) {
  if (path.empty() || ::access(path.c_str(), F_OK) == 0) return {};
  KLAB_TRY_VOID(make_folders(path.parent_path()));
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return fail_errno(errno, path.string());
  return {};
}

namespace {
fs::path from_environment(const char* name) {
  const char* value = environment_value(name);
  return value != nullptr && *value != '\0' ? fs::path(value) : fs::path();
}
fs::path user_home() {
  if (auto home = from_environment("HOME"); !home.empty()) return home;
  return "/";
}
}  // namespace

fs::path klab_home() {
  if (auto home = from_environment("KLAB_HOME"); !home.empty()) return home;
  if (auto data = from_environment("XDG_DATA_HOME"); !data.empty()) return data / "klab";
  return user_home() / ".local" / "share" / "klab";
}

fs::path klab_cache() {
  if (auto home = from_environment("KLAB_HOME"); !home.empty()) return home / "cache";
  if (auto cache = from_environment("XDG_CACHE_HOME"); !cache.empty()) return cache / "klab";
  return user_home() / ".cache" / "klab";
}

fs::path program_folder() {
  std::error_code ec;
  const fs::path exe = fs::read_symlink("/proc/self/exe", ec);
  return ec ? fs::path(".") : exe.parent_path();
}

}  // namespace klab
