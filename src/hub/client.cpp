// SPDX-License-Identifier: Apache-2.0
#include "hub/client.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <list>
#include <thread>

#include <fmt/format.h>

#include "base/environment.h"
#include "base/subprocess.h"
#include "hub/core.h"
#include "hub/wire.h"
#include "ops/session_files.h"
#include "replay/protocol.h"

namespace klab::hub {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kStartLimit = std::chrono::seconds(15);
constexpr int kHelloMs = 10000;

/// A connection to a hub that listens; none is no error.
std::optional<Fd> connect_to(const fs::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.string().size() >= sizeof address.sun_path) return std::nullopt;
  std::copy_n(path.c_str(), path.string().size() + 1, address.sun_path);
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd || ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return std::nullopt;
  return fd;
}

/// A process of its own: no terminal, no working folder, no open file of ours.
Status start_hub() {
  KLAB_TRY_VOID(make_folders(klab_home() / "logs"));
  const fs::path program = program_folder() / "klab", log = klab_home() / "logs" / "hub.log";
  if (::access(program.c_str(), X_OK) != 0)
    return fail(ErrorCode::environment, program.string() + " is not there or may not be run",
                "reinstall klab");
  std::error_code ec;
  const int append = fs::file_size(log, ec) > (1u << 20) && !ec ? O_TRUNC : O_APPEND;
  const Fd out(::open(log.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | append, 0600)),
      null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!out || !null) return fail_errno(errno, "opening " + log.string());
  const pid_t child = ::fork();
  if (child < 0) return fail_errno(errno, "fork");
  if (child == 0) {
    // Async-signal-safe only from here on: other threads may hold locks.
    ::setsid();
    if (::fork() != 0) ::_exit(0);
    if (::chdir("/") != 0) ::_exit(127);
    ::dup2(null.get(), 0), ::dup2(out.get(), 1), ::dup2(out.get(), 2);
    for (int fd = 3; fd < 1024; ++fd) ::close(fd);
    const char* const argv[] = {program.c_str(), "hub", "run", nullptr};
    ::execv(program.c_str(), const_cast<char* const*>(argv));
    ::_exit(127);
  }
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return {};
}

constexpr std::chrono::seconds kStopGrace{20};  // a little more than the worker's own

/// What was said to the hub, and its answer. Errors: worker_lost when the hub went away.
Result<Json> exchange(int fd, const Json& message, const OnProgress& progress,
                      const std::function<bool()>& cancelled) {
  const auto lost = [] {
    return fail(ErrorCode::worker_lost, "the hub went away during the call",
                "run the command again: what was reported is kept; $KLAB_HOME/logs/hub.log may say why");
  };
  if (!replay::send_message(fd, message)) return lost();
  // A comparison that is stopped ends with what it has: that answer is waited for.
  const std::string verb = message.value("verb", "");
  const bool keeps = verb == "compare" || verb == "session.compare";
  std::optional<std::chrono::steady_clock::time_point> stop_by;
  for (;;) {
    if (!stop_by && cancelled && cancelled()) {
      stop_by = std::chrono::steady_clock::now() + (keeps ? kStopGrace : std::chrono::seconds(0));
      ::shutdown(fd, SHUT_WR);  // the hub sees that nothing more will be asked for
    }
    if (stop_by && std::chrono::steady_clock::now() >= *stop_by)
      return fail(ErrorCode::interrupted, "interrupted; nothing was kept of this run");
    pollfd p{fd, POLLIN, 0};
    if (::poll(&p, 1, 50) <= 0) continue;
    auto got = replay::receive_message(fd, 60000);
    if (!got || !got->is_object()) return lost();
    if (const auto error = got->find("error"); error != got->end())
      return fail(decode_json<Error>(*error, "the hub's answer").value_or(Error{}));
    if (const auto result = got->find("result"); result != got->end()) return std::move(*result);
    if (progress && got->contains("progress")) {
      Progress p2;
      try {
        const Json& j = (*got)["progress"];
        read_optional(j, "line", p2.line), read_optional(j, "done", p2.done);
        read_optional(j, "total", p2.total), read_optional(j, "place", p2.place);
      } catch (const std::exception&) {
        continue;
      }
      progress(p2);
    }
  }
}

}  // namespace

struct Client::Impl {
  Options options;
  std::mutex mutex;
  std::unique_ptr<Core> own;  // when it works alone
  std::list<Fd> idle;         // connections that have said hello

  /// The work inside this process. Said once when it was not asked for.
  Core& alone(const std::string& why) {
    std::lock_guard lock(mutex);
    if (!own) {
      if (!why.empty()) fmt::print(stderr, "klab: {}; the work is done in this process\n", why);
      own = std::make_unique<Core>();
      if (auto store = session::Store::open(klab_home() / "klab.sqlite"); store)
        (void)ops::recover_sessions(*store, klab_home());
    }
    return *own;
  }

  /// A connection to a hub of our version, started when there is none. Errors: environment (with what to say
  /// of it).
  Result<Fd> connection() {
    {
      std::lock_guard lock(mutex);
      while (!idle.empty()) {
        Fd fd = std::move(idle.front());
        idle.pop_front();
        pollfd p{fd.get(), POLLIN | POLLRDHUP, 0};
        if (::poll(&p, 1, 0) == 0) return fd;  // else its hub has left since
      }
    }
    KLAB_TRY(const fs::path path, socket_path());
    for (int round = 0; round < 3; ++round) {
      auto fd = connect_to(path);
      if (!fd) {
        if (!options.start)
          return fail(ErrorCode::not_found, "no hub runs", "it starts by itself when there is work");
        KLAB_TRY(fd, started(path));
      }
      if (!replay::send_message(fd->get(), Json{{"hello", identity()}})) continue;
      auto hello = replay::receive_message(fd->get(), kHelloMs, 1u << 20);
      if (!hello || !hello->is_object() || !hello->contains("hub")) continue;
      Json theirs = (*hello)["hub"];
      if (theirs.is_object()) theirs.erase("pid");
      if (theirs == identity()) return std::move(*fd);
      // Of another version: it leaves when it has nothing to do.
      auto stopped = exchange(fd->get(), {{"verb", "hub.stop"}}, {}, {});
      if (!stopped)
        return fail(ErrorCode::environment, "a hub of another version is at work",
                    "wait for it, or klab hub stop --force");
      const auto deadline = Clock::now() + kStartLimit;
      while (connect_to(path) && Clock::now() < deadline)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return fail(ErrorCode::environment, "the hub does not answer", "klab hub stop --force, or --no-hub");
  }

  /// Two that come at once start one.
  Result<Fd> started(const fs::path& path) {
    const Fd lock(
        ::open((path.string() + ".start").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!lock) return fail_errno(errno, "opening the hub's lock");
    const auto deadline = Clock::now() + kStartLimit;
    while (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && Clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (auto fd = connect_to(path)) return std::move(*fd);
    for (int attempt = 0; attempt < 2; ++attempt) {
      KLAB_TRY_VOID(start_hub());
      // One that is about to leave still has the lock of its home: the new one then gives up, and is started
      // again.
      const auto until = Clock::now() + std::chrono::seconds(5);
      while (Clock::now() < until) {
        if (auto fd = connect_to(path)) return std::move(*fd);
        std::this_thread::sleep_for(std::chrono::milliseconds(3));
      }
    }
    return fail(ErrorCode::environment, "the hub did not start",
                (klab_home() / "logs" / "hub.log").string() + " may say why");
  }

  Json message(const std::string& verb, const Json& arguments) const {
    return {{"verb", verb},
            {"arguments", arguments},
            {"front_end", options.front_end},
            {"environment", environment_variables()}};
  }
};

Client::Client(Options options) : impl_(std::make_unique<Impl>()) { impl_->options = std::move(options); }
Client::~Client() = default;

Result<Json> Client::call(const std::string& verb, const Json& arguments, const OnProgress& progress,
                          const std::function<bool()>& cancelled) {
  std::string why;
  if (!impl_->options.alone && !impl_->own) {
    auto fd = impl_->connection();
    if (fd) {
      auto answer = exchange(fd->get(), impl_->message(verb, arguments), progress, cancelled);
      const bool usable = answer || (answer.error().code != ErrorCode::interrupted &&
                                     answer.error().code != ErrorCode::worker_lost);
      if (usable) {
        std::lock_guard lock(impl_->mutex);
        impl_->idle.push_back(std::move(*fd));
      }
      return answer;
    }
    if (verb.rfind("hub.", 0) == 0) return fail(fd.error());
    why = fd.error().what;
  }
  return impl_->alone(why).call(verb, arguments, {impl_->options.front_end, nullptr}, progress, cancelled);
}

Result<std::shared_ptr<void>> Client::hold(const OnProgress& progress,
                                           const std::function<bool()>& cancelled) {
  if (impl_->options.alone || impl_->own) return std::shared_ptr<void>();
  auto fd = impl_->connection();
  if (!fd) return std::shared_ptr<void>();  // the device's own lock still keeps others' measuring apart
  KLAB_TRY_VOID(exchange(fd->get(), impl_->message("device.hold", Json::object()), progress, cancelled));
  return std::shared_ptr<void>(std::make_shared<Fd>(std::move(*fd)));
}

}  // namespace klab::hub
