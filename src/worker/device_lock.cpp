// SPDX-License-Identifier: Apache-2.0
#include "worker/device_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <fmt/format.h>

#include "base/hash.h"

namespace klab::worker {
namespace {

/// A folder where everybody may make files and nobody may remove those of others, as /tmp is.
bool shared_folder(const fs::path& folder, std::string& problem) {
  if (::mkdir(folder.c_str(), 01777) == 0) (void)::chmod(folder.c_str(), 01777);  // whatever the umask says
  struct stat st {};
  if (::lstat(folder.c_str(), &st) != 0)
    problem = fmt::format("{}: {}", folder.string(), std::strerror(errno));
  else if (!S_ISDIR(st.st_mode))
    problem = folder.string() + " is no folder";
  return problem.empty();
}

/// No link is followed, and a file with two names is refused: the folder is everybody's.
Fd open_lock(const fs::path& file, std::string& problem) {
  constexpr int kFlags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  // Another's file in a sticky folder cannot be opened with O_CREAT (fs.protected_regular), so that comes
  // second.
  Fd fd(::open(file.c_str(), kFlags));
  if (!fd && errno == ENOENT) {
    fd = Fd(::open(file.c_str(), kFlags | O_CREAT | O_EXCL, 0666));
    if (fd) (void)::fchmod(fd.get(), 0666);
    if (!fd && errno == EEXIST) fd = Fd(::open(file.c_str(), kFlags));
  }
  struct stat st {};
  if (!fd || ::fstat(fd.get(), &st) != 0) {
    problem = fmt::format("{}: {}", file.string(), std::strerror(errno));
    return {};
  }
  if (!S_ISREG(st.st_mode) || st.st_nlink != 1) {
    problem = file.string() + " is not a file of its own";
    return {};
  }
  return fd;
}

long holder(int fd) {
  char text[32] = {};
  return ::pread(fd, text, sizeof text - 1, 0) > 0 ? std::strtol(text, nullptr, 10) : 0;
}

}  // namespace

std::optional<DeviceLock> DeviceLock::take(const bundle::DeviceIdentity& device,
                                           const std::function<void(long)>& waiting,
                                           std::vector<std::string>& notes) {
  const char* own = std::getenv("KLAB_LOCKS");
  const fs::path folder = own != nullptr && *own == '/' ? fs::path(own) : fs::path("/tmp/klab-locks");
  const std::string key = !device.uuid.empty() ? device.uuid : device.api + device.name;
  std::string problem;
  Fd fd;
  if (shared_folder(folder, problem))
    fd = open_lock(folder / ("device-" + to_string(hash_text(key)).substr(0, 16) + ".lock"), problem);
  if (!fd) {
    notes.push_back(fmt::format("the device could not be locked against others' measuring: {}", problem));
    return std::nullopt;
  }
  for (int round = 0; ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0; ++round) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      notes.push_back(
          fmt::format("the device could not be locked against others' measuring: {}", std::strerror(errno)));
      return std::nullopt;
    }
    if (round % 100 == 0) waiting(holder(fd.get()));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const std::string pid = fmt::format("{}\n", ::getpid());
  (void)!::ftruncate(fd.get(), 0);
  (void)!::pwrite(fd.get(), pid.data(), pid.size(), 0);
  return DeviceLock(std::move(fd));
}

}  // namespace klab::worker
