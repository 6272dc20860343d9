// SPDX-License-Identifier: Apache-2.0
#include "ops/allowed.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include <fmt/format.h>

namespace klab::ops {
namespace {

constexpr std::size_t kLongest = 4096;
constexpr char kHint[] = "a session reads and writes only below its roots, through no link: klab session show lists them";

tl::unexpected<Error> refused(std::string_view path, std::string_view why) {
  return fail(ErrorCode::not_allowed, fmt::format("{}: {}", path.substr(0, 300), why), kHint);
}

// What an open below a root met, in words.
tl::unexpected<Error> open_failed(int error_number, const std::string& named) {
  if (error_number == ELOOP) return refused(named, "there is a symbolic link on the way, and none is followed");
  if (error_number == EXDEV) return refused(named, "it leads out of the root");
  if (error_number == ENOTDIR) return fail(ErrorCode::not_found, fmt::format("{}: no such file", named), kHint);
  return fail_errno(error_number, named);
}

Result<Fd> open_below(int folder, const fs::path& rest, const std::string& named) {
  bool supported = true;
  auto fd = detail::open_by_openat2(folder, rest, named, supported);
  return supported ? std::move(fd) : detail::open_by_component(folder, rest, named);
}

// The part of `path` below the root that `id` is of: by its name, or by being the same folder under another name.
std::optional<fs::path> rest_below(const fs::path& path, const fs::path& root, const struct stat& id) {
  fs::path prefix, rest;
  auto it = path.begin();
  const auto remaining = [&] {
    fs::path r;
    for (auto k = it; k != path.end(); ++k)
      if (!k->empty() && *k != ".") r /= *k;
    return r;
  };
  std::optional<fs::path> found;
  while (it != path.end()) {
    prefix /= *it++;
    struct stat st {};
    if (prefix == root || (::stat(prefix.c_str(), &st) == 0 && st.st_dev == id.st_dev && st.st_ino == id.st_ino))
      return remaining();
  }
  return found;
}

}  // namespace

namespace detail {

Result<Fd> open_by_openat2(int folder, const fs::path& rest, const std::string& named, bool& supported) {
  struct open_how how {};
  how.flags = O_PATH | O_CLOEXEC | O_NOFOLLOW;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
  for (int attempt = 0;; ++attempt) {
    const long fd = ::syscall(SYS_openat2, folder, rest.c_str(), &how, sizeof how);
    if (fd >= 0) {
      // With O_PATH and O_NOFOLLOW a link at the end is opened itself.
      Fd opened(static_cast<int>(fd));
      struct stat st {};
      if (::fstat(opened.get(), &st) == 0 && S_ISLNK(st.st_mode)) return open_failed(ELOOP, named);
      return opened;
    }
    if (errno == EAGAIN && attempt < 100) continue;  // something was renamed meanwhile
    if (errno == ENOSYS || errno == EPERM || errno == EINVAL || errno == E2BIG) {
      supported = false;  // an old kernel, or a sandbox that knows no such call
      return fail_errno(ENOSYS, named);
    }
    return open_failed(errno, named);
  }
}

Result<Fd> open_by_component(int folder, const fs::path& rest, const std::string& named) {
  Fd at(::fcntl(folder, F_DUPFD_CLOEXEC, 0));
  if (!at) return fail_errno(errno, named);
  for (auto it = rest.begin(); it != rest.end(); ++it) {
    if (it->empty() || *it == ".") continue;
    if (*it == ".." || it->is_absolute()) return open_failed(EXDEV, named);
    Fd next(::openat(at.get(), it->c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!next) return open_failed(errno, named);
    struct stat st {};
    if (::fstat(next.get(), &st) != 0) return fail_errno(errno, named);
    if (S_ISLNK(st.st_mode)) return open_failed(ELOOP, named);
    if (std::next(it) != rest.end() && !S_ISDIR(st.st_mode)) return open_failed(ENOTDIR, named);
    at = std::move(next);
  }
  return at;
}

}  // namespace detail

Result<std::vector<std::string>> canonical_roots(const std::vector<std::string>& roots) {
  std::vector<std::string> kept;
  for (const std::string& root : roots) {
    if (root.find('\0') != std::string::npos || root.empty() || root[0] != '/' || root.size() > kLongest)
      return fail(ErrorCode::usage, fmt::format("root \"{}\" is not an absolute path", root.substr(0, 300)),
                  "give folders such as /home/me/project");
    std::error_code ec;
    const fs::path canonical = fs::canonical(root, ec);
    if (ec) return fail(ErrorCode::not_found, fmt::format("root {}: {}", root, ec.message()), "give a folder that is there");
    if (!fs::is_directory(canonical, ec)) return refused(root, "it is not a folder");
    if (std::find(kept.begin(), kept.end(), canonical.string()) == kept.end()) kept.push_back(canonical.string());
  }
  return kept;
}

bool beneath(const std::vector<std::string>& roots, const fs::path& path) {
  for (const std::string& root : roots) {
    const fs::path relative = path.lexically_relative(root);
    if (!relative.empty() && *relative.begin() != "..") return true;
  }
  return false;
}

Result<Allowed> open_allowed(const std::vector<std::string>& roots, std::string_view text, PathKind kind) {
  if (text.empty()) return fail(ErrorCode::usage, "an empty path", kHint);
  if (text.size() > kLongest) return refused(text, "the path is too long");
  if (text.find('\0') != std::string_view::npos) return refused(text.substr(0, text.find('\0')), "the path has a NUL byte in it");
  const fs::path path(text);
  for (const fs::path& part : path)
    if (part == "..") return refused(text, "a path with .. is not followed");
  if (roots.empty()) return refused(text, "the session has no roots");

  Error first;
  bool tried = false;
  for (const std::string& root : roots) {
    Fd folder(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    struct stat id {};
    if (!folder || ::fstat(folder.get(), &id) != 0) continue;  // gone meanwhile
    std::optional<fs::path> rest = path.lexically_normal();
    if (path.is_absolute()) rest = rest_below(path, root, id);
    if (!rest) continue;
    if (rest->empty() || *rest == ".") rest = fs::path();
    if (rest->has_relative_path() && !rest->has_filename()) rest = rest->parent_path();
    Allowed allowed{.path = rest->empty() ? fs::path(root) : fs::path(root) / *rest, .root = root};
    const std::string named = allowed.path.string();
    const auto open = [&]() -> Status {
      struct stat st {};
      if (kind == PathKind::folder || rest->empty()) {
        if (rest->empty()) {
          allowed.fd = std::move(folder);
        } else {
          KLAB_TRY(allowed.fd, open_below(folder.get(), *rest, named));
        }
        if (::fstat(allowed.fd.get(), &st) != 0) return fail_errno(errno, named);
        if (kind == PathKind::file || !S_ISDIR(st.st_mode))
          return refused(named, kind == PathKind::file ? "it is not a regular file" : "it is not a folder");
        return {};
      }
      if (rest->has_parent_path()) {
        KLAB_TRY(allowed.parent, open_below(folder.get(), rest->parent_path(), named));
      } else {
        allowed.parent = std::move(folder);
      }
      KLAB_TRY(const Fd looked, open_below(allowed.parent.get(), rest->filename(), named));
      if (::fstat(looked.get(), &st) != 0) return fail_errno(errno, named);
      if (!S_ISREG(st.st_mode)) return refused(named, "it is not a regular file");
      // Through the handle, not the name: no device or pipe is ever opened, and no other file than this.
      allowed.fd = Fd(::open(fmt::format("/proc/self/fd/{}", looked.get()).c_str(), O_RDONLY | O_CLOEXEC));
      if (!allowed.fd) return fail_errno(errno, named);
      return {};
    };
    const Status opened = open();
    if (opened) return allowed;
    if (!tried || first.code == ErrorCode::not_found) first = opened.error();  // a refusal says more than "not there"
    tried = true;
  }
  if (tried) return fail(std::move(first));
  return refused(text, fmt::format("it is not beneath the session's roots ({})", fmt::join(roots, ", ")));
}

Result<std::string> read_allowed(const Allowed& file, std::uint64_t max_bytes) {
  return read_file(fmt::format("/proc/self/fd/{}", file.fd.get()), max_bytes);
}

}  // namespace klab::ops
