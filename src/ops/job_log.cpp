// SPDX-License-Identifier: Apache-2.0
#include "ops/job_log.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "base/ids.h"

namespace klab::ops {

struct JobLog::Impl {
  std::mutex mutex;
  Fd file, in, out, stop;
  std::uint64_t cap = 0, written = 0;
  bool full = false;
  std::thread pump;

  void add(std::string_view text) {
    std::lock_guard lock(mutex);
    if (!file || full) return;
    if (written + text.size() > cap) {
      full = true;
      const std::string said = fmt::format("\n-- the log reached its cap of {} bytes; the job goes on --\n", cap);
      text = text.substr(0, cap > written ? cap - written : 0);
      (void)write_all(file.get(), std::as_bytes(std::span(text)));
      (void)write_all(file.get(), std::as_bytes(std::span(said)));
      return;
    }
    if (!write_all(file.get(), std::as_bytes(std::span(text)))) full = true;
    written += text.size();
  }

  // Until the writers are gone, or we are told to stop and nothing more is there.
  void run() {
    char buffer[1 << 15];
    bool stopping = false;
    for (int after_stop = 0; after_stop < 1000;) {
      pollfd fds[2] = {{in.get(), POLLIN, 0}, {stop.get(), POLLIN, 0}};
      if (::poll(fds, 2, stopping ? 0 : -1) < 0 && errno != EINTR) return;
      if ((fds[1].revents & POLLIN) != 0) stopping = true;
      after_stop += stopping ? 1 : 0;  // somebody who writes without end is left behind
      if ((fds[0].revents & (POLLIN | POLLHUP)) == 0) {
        if (stopping) return;
        continue;
      }
      const ssize_t n = ::read(in.get(), buffer, sizeof buffer);
      if (n == 0) return;
      if (n > 0) add(std::string_view(buffer, static_cast<std::size_t>(n)));
    }
  }
};

JobLog::JobLog(const fs::path& file, std::uint64_t cap) : impl_(std::make_unique<Impl>()) {
  impl_->cap = cap;
  if (!make_folders(file.parent_path())) return;
  impl_->file = Fd(::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
}
JobLog::JobLog(JobLog&&) noexcept = default;

JobLog::~JobLog() {
  if (!impl_ || !impl_->pump.joinable()) return;
  impl_->out = Fd();
  const std::uint64_t one = 1;
  if (::write(impl_->stop.get(), &one, sizeof one) == sizeof one) impl_->pump.join();
}

void JobLog::line(std::string_view text) {
  if (!text.empty()) impl_->add(fmt::format("{} {}\n", utc_now(), text));
}

int JobLog::pipe() {
  if (impl_->out) return impl_->out.get();
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return -1;
  impl_->in = Fd(ends[0]), impl_->out = Fd(ends[1]);
  impl_->stop = Fd(::eventfd(0, EFD_CLOEXEC));
  if (!impl_->stop) return impl_->out = Fd(), -1;
  impl_->pump = std::thread([impl = impl_.get()] { impl->run(); });
  return impl_->out.get();
}

}  // namespace klab::ops
