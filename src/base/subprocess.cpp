// SPDX-License-Identifier: Apache-2.0
#include "base/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "base/environment.h"

namespace klab {
namespace {

using Clock = std::chrono::steady_clock;

std::vector<std::string> merged_environment(const SpawnOptions& options) {
  std::vector<std::string> merged;
  for (const auto& [name, value] : environment_variables())
    if (options.environment.count(name) == 0) merged.push_back(name + "=" + value);
  for (const auto& [name, value] : options.environment)
    if (value) merged.push_back(name + "=" + *value);
  return merged;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> list;
  for (std::string& s : strings) list.push_back(s.data());
  list.push_back(nullptr);
  return list;
}

/// Runs work on a thread that never ends. The kernel sends a child its PR_SET_PDEATHSIG when the thread that forked it
/// ends, not the process: a child that outlives the call it was started in needs such a parent.
class Forker {
 public:
  static Forker& get() {
    static Forker* one = new Forker;  // for ever
    return *one;
  }
  void run(const std::function<void()>& work) {
    std::unique_lock lock(mutex_);
    turn_.wait(lock, [this] { return work_ == nullptr; });
    work_ = &work;
    changed_.notify_all();
    done_.wait(lock, [this, &work] { return work_ != &work; });
  }

 private:
  Forker() { std::thread(&Forker::loop, this).detach(); }
  void loop() {
    sigset_t all;  // handlers run in threads of the program
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return work_ != nullptr; });
      (*work_)();
      work_ = nullptr;
      done_.notify_all();
      turn_.notify_one();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_, done_, turn_;
  const std::function<void()>* work_ = nullptr;
};

}  // namespace

std::string to_string(const ExitStatus& status) {
  if (status.signal != 0) {
    const char* name = ::sigabbrev_np(status.signal);
    return fmt::format("was ended by SIG{}", name != nullptr ? name : std::to_string(status.signal));
  }
  return fmt::format("exited with {}", status.code);
}

fs::path find_program(const std::string& name) {
  if (name.find('/') != std::string::npos)
    return ::access(name.c_str(), X_OK) == 0 ? fs::path(name) : fs::path();
  const char* path = environment_value("PATH");
  std::string_view rest = path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin";
  while (!rest.empty()) {
    const auto colon = rest.find(':');
    const fs::path candidate = fs::path(rest.substr(0, colon)) / name;
    std::error_code ec;
    if (::access(candidate.c_str(), X_OK) == 0 && !fs::is_directory(candidate, ec)) return candidate;
    if (colon == std::string_view::npos) break;
    rest.remove_prefix(colon + 1);
  }
  return {};
}

Result<Child> Child::spawn(const SpawnOptions& options) {
  if (options.argv.empty()) return fail(ErrorCode::usage, "no program given");
  // All allocation happens before fork: the child only makes async-signal-safe calls.
  std::vector<std::string> argv = options.argv;
  const bool by_path = argv[0].find('/') != std::string::npos;
  const fs::path program = by_path ? fs::path(argv[0]) : find_program(argv[0]);
  if (program.empty())
    return fail(ErrorCode::not_found, fmt::format("no program named {} in PATH", argv[0]),
                "check the spelling, or give its full path");
  std::vector<std::string> environment = merged_environment(options);
  std::vector<char*> argv_pointers = pointers(argv), environment_pointers = pointers(environment);
  int report[2];
  if (::pipe2(report, O_CLOEXEC) != 0) return fail_errno(errno, "pipe");
  Fd report_read(report[0]), report_write(report[1]);
  const pid_t parent = ::getpid();

  const auto become = [&] {
    auto die = [&] {
      const int error_number = errno;
      (void)!::write(report[1], &error_number, sizeof error_number);
      ::_exit(127);
    };
    if (options.own_group) ::setpgid(0, 0);
    if (options.die_with_parent) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(127);
    }
    if (!options.working_folder.empty() && ::chdir(options.working_folder.c_str()) != 0) die();
    // Move every wanted descriptor out of the way first, so that none is overwritten before its turn.
    struct Move {
      int to, from;
    };
    Move moves[16];
    int count = 0;
    auto want = [&](int to, int from) {
      if (count < 16) moves[count++] = {to, ::fcntl(from, F_DUPFD_CLOEXEC, 64)};
    };
    if (options.in >= 0) want(0, options.in);
    if (options.out >= 0) want(1, options.out);
    if (options.err >= 0) want(2, options.err);
    for (const auto& [to, from] : options.extra_fds) want(to, from);
    for (int i = 0; i < count; ++i)
      if (moves[i].from < 0 || ::dup2(moves[i].from, moves[i].to) < 0) die();
    if (options.in < 0) {
      const int null = ::open("/dev/null", O_RDONLY);
      if (null >= 0) ::dup2(null, 0);
      if (null > 2) ::close(null);
    }
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::signal(SIGPIPE, SIG_DFL);
    ::signal(SIGXFSZ, SIG_DFL);
    ::execve(program.c_str(), argv_pointers.data(), environment_pointers.data());
    die();
  };
  pid_t pid = -1;
  int fork_error = 0;
  const auto start = [&] {
    pid = ::fork();
    if (pid == 0) become();
    fork_error = errno;
  };
  if (options.die_with_parent && ::gettid() != ::getpid())
    Forker::get().run(start);
  else
    start();
  if (pid < 0) return fail_errno(fork_error, "fork");
  if (options.own_group) ::setpgid(pid, pid);
  report_write = Fd();
  int error_number = 0;
  ssize_t n;
  do n = ::read(report_read.get(), &error_number, sizeof error_number);
  while (n < 0 && errno == EINTR);
  if (n == sizeof error_number) {
    ::waitpid(pid, nullptr, 0);
    auto error = fail_errno(error_number, options.argv[0]);
    if (error_number == EACCES) {
      error.value().code = ErrorCode::environment;
      error.value().hint = fmt::format("make it executable: chmod +x {}", options.argv[0]);
    }
    return error;
  }
  Child child;
  child.pid_ = pid;
  child.own_group_ = options.own_group;
  child.pidfd_ = Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  return child;
}

Child::Child(Child&& other) noexcept { *this = std::move(other); }
Child& Child::operator=(Child&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(own_group_, other.own_group_);
  std::swap(pidfd_, other.pidfd_);
  std::swap(status_, other.status_);
  return *this;
}

Child::~Child() {
  if (pid_ > 0 && !status_) {
    kill(SIGKILL);
    wait();
  }
}

void Child::kill(int signal) {
  if (pid_ <= 0) return;
  // The group may outlive its leader; pid reuse of a group is not possible while a member lives.
  if (own_group_)
    ::kill(-pid_, signal);
  else if (!status_)
    ::kill(pid_, signal);
}

std::optional<ExitStatus> Child::wait(std::optional<std::chrono::milliseconds> limit) {
  if (status_) return status_;
  if (limit) {
    const auto deadline = Clock::now() + *limit;
    for (;;) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
      if (pidfd_) {
        pollfd p{pidfd_.get(), POLLIN, 0};
        const int ready = ::poll(&p, 1, static_cast<int>(std::max<long>(left, 0)));
        if (ready > 0) break;
        if (ready == 0 || (errno == EINTR && left <= 0)) return std::nullopt;
      } else {
        siginfo_t info{};
        if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            info.si_pid != 0)
          break;
        if (left <= 0) return std::nullopt;
        ::usleep(2000);
      }
    }
  }
  int raw = 0;
  pid_t got;
  do got = ::waitpid(pid_, &raw, 0);
  while (got < 0 && errno == EINTR);
  ExitStatus status;
  if (got < 0)
    status.code = 127;
  else if (WIFSIGNALED(raw))
    status.signal = WTERMSIG(raw);
  else
    status.code = WEXITSTATUS(raw);
  status_ = status;
  return status_;
}

Result<Finished> run_program(SpawnOptions options, std::string_view input, std::chrono::milliseconds limit,
                             std::size_t cap) {
  int in[2], out[2], err[2];
  if (::pipe2(in, O_CLOEXEC) != 0) return fail_errno(errno, "pipe");
  Fd in_read(in[0]), in_write(in[1]);
  if (::pipe2(out, O_CLOEXEC) != 0) return fail_errno(errno, "pipe");
  Fd out_read(out[0]), out_write(out[1]);
  if (::pipe2(err, O_CLOEXEC) != 0) return fail_errno(errno, "pipe");
  Fd err_read(err[0]), err_write(err[1]);
  options.in = in_read.get();
  options.out = out_write.get();
  options.err = err_write.get();
  KLAB_TRY(Child child, Child::spawn(options));
  in_read = Fd(), out_write = Fd(), err_write = Fd();
  ::fcntl(in_write.get(), F_SETFL, O_NONBLOCK);
  // A child that does not read its input must not end us. Held back in this thread only: handlers are the process's.
  sigset_t pipe_signal, mask_before, pending;
  ::sigemptyset(&pipe_signal);
  ::sigaddset(&pipe_signal, SIGPIPE);
  ::sigpending(&pending);
  ::pthread_sigmask(SIG_BLOCK, &pipe_signal, &mask_before);

  Finished finished;
  const auto deadline = Clock::now() + limit;
  bool out_open = true, err_open = true;
  if (input.empty()) in_write = Fd();
  auto drain = [&](Fd& fd, bool& open, std::string& text) {
    char buffer[1 << 16];
    const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
    if (n <= 0) {
      if (n == 0 || errno != EINTR) open = false;
      return;
    }
    if (text.size() >= cap) return;
    text.append(buffer, std::min<std::size_t>(static_cast<std::size_t>(n), cap - text.size()));
    if (text.size() >= cap) text += fmt::format("\n[klab: output is cut at {} bytes]\n", cap);
  };
  while (out_open || err_open) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) {
      finished.timed_out = true;
      child.kill(SIGKILL);
      break;
    }
    pollfd p[3] = {{out_open ? out_read.get() : -1, POLLIN, 0},
                   {err_open ? err_read.get() : -1, POLLIN, 0},
                   {in_write.get(), POLLOUT, 0}};
    if (::poll(p, 3, static_cast<int>(std::min<long>(left, 1000))) < 0 && errno != EINTR) break;
    if (p[0].revents != 0) drain(out_read, out_open, finished.out);
    if (p[1].revents != 0) drain(err_read, err_open, finished.err);
    if (in_write && p[2].revents != 0) {
      const ssize_t n = ::write(in_write.get(), input.data(), input.size());
      if (n > 0) input.remove_prefix(static_cast<std::size_t>(n));
      if (input.empty() || (n < 0 && errno != EAGAIN && errno != EINTR)) in_write = Fd();
    }
  }
  if (::sigismember(&pending, SIGPIPE) == 0) {
    const timespec now{0, 0};
    while (::sigtimedwait(&pipe_signal, nullptr, &now) < 0 && errno == EINTR) {
    }
  }
  ::pthread_sigmask(SIG_SETMASK, &mask_before, nullptr);
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
  auto status = child.wait(std::max(left, std::chrono::milliseconds(0)));
  if (!status) {
    finished.timed_out = true;
    child.kill(SIGKILL);
    status = child.wait();
  }
  finished.status = *status;
  return finished;
}

}  // namespace klab
