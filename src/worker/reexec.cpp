// SPDX-License-Identifier: Apache-2.0
#include "worker/reexec.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "base/files.h"

namespace klab::worker {
namespace {
constexpr const char* kAttempt = "KLAB_WORKER_ATTEMPT";
constexpr const char* kPending = "KLAB_WORKER_PENDING";

int number_in(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}
}  // namespace

int start_anew(char** argv, const Json& pending) {
  const int attempt = number_in(kAttempt, 0) + 1;
  if (attempt > kMostAttempts) return kMostAttempts;
  const std::string text = pending.dump();
  const int fd = ::memfd_create("klab-pending", 0);  // inherited on purpose
  if (fd < 0) return attempt - 1;
  if (!write_all(fd, std::as_bytes(std::span(text)))) {
    ::close(fd);
    return attempt - 1;
  }
  ::setenv(kAttempt, std::to_string(attempt).c_str(), 1);
  ::setenv(kPending, std::to_string(fd).c_str(), 1);
  // Descriptors of the driver must not leak into the new image; the three standard ones, the socket and the
  // probe's file stay.
  for (int other = 5; other < 1024; ++other)
    if (other != fd) ::fcntl(other, F_SETFD, FD_CLOEXEC);
  ::execv("/proc/self/exe", argv);
  ::unsetenv(kPending);
  ::close(fd);
  return attempt - 1;
}

std::optional<Json> take_pending() {
  const int number = number_in(kPending, -1);
  if (number < 0) return std::nullopt;
  ::unsetenv(kPending);
  const Fd fd(number);
  struct stat st {};
  if (::fstat(fd.get(), &st) != 0) return std::nullopt;
  std::string text(static_cast<std::size_t>(st.st_size), '\0');
  if (::pread(fd.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
    return std::nullopt;
  auto json = parse_json(text, "pending request");
  if (!json) return std::nullopt;
  return std::move(*json);
}

void forget_attempts() { ::unsetenv(kAttempt); }

}  // namespace klab::worker
