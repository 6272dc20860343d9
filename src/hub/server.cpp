// SPDX-License-Identifier: Apache-2.0
#include "hub/server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <list>
#include <thread>

#include <fmt/format.h>

#include "hub/core.h"
#include "hub/wire.h"
#include "ops/session_files.h"
#include "replay/protocol.h"

namespace klab::hub {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kHelloMs = 10000;
constexpr auto kLeaveLimit = std::chrono::seconds(4);
constexpr std::size_t kMostConnections = 256;

/// True when the client has closed, or wants the call stopped.
bool gone(int fd) {
  pollfd p{fd, POLLIN | POLLRDHUP, 0};
  return ::poll(&p, 1, 0) > 0;
}

class Server {
 public:
  Server(Core& core, const ServeOptions& options, fs::path socket)
      : core_(core), options_(options), socket_(std::move(socket)) {}

  void run(int listening, const std::function<bool()>& stop) {
    auto quiet_since = Clock::now();
    while (!stop() && !stopping_) {
      pollfd p{listening, POLLIN, 0};
      if (::poll(&p, 1, 100) > 0) {
        const Fd client(::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC));
        if (client) admit(const_cast<Fd&>(client));
      }
      if (there_ > 0 || core_.at_work() > 0) quiet_since = Clock::now();
      if (Clock::now() - quiet_since > std::chrono::duration<double>(options_.idle_s)) break;
      struct stat st {};
      if (::stat(socket_.c_str(), &st) != 0 && core_.at_work() == 0) break;  // nobody can find us any more
    }
  }

  ~Server() {
    core_.stop();
    {
      std::lock_guard lock(mutex_);
      for (const int fd : open_) ::shutdown(fd, SHUT_RDWR);
    }
    std::unique_lock lock(mutex_);
    left_.wait(lock, [&] { return there_ == 0; });
  }

 private:
  void admit(Fd& client) {
    ucred peer{};
    socklen_t size = sizeof peer;
    if (::getsockopt(client.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != ::getuid())
      return;
    // One that never reads holds up its own thread for so long, and then is gone.
    const timeval patience{5, 0};
    ::setsockopt(client.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    std::lock_guard lock(mutex_);
    if (there_ >= static_cast<int>(kMostConnections)) return;
    ++there_;
    open_.push_back(client.get());
    std::thread([this, fd = client.release()] {
      const Fd connection(fd);
      serve_one(fd);
      std::lock_guard inner(mutex_);
      open_.remove(fd);
      --there_;
      left_.notify_all();
    }).detach();
  }

  void serve_one(int fd) {
    auto hello = replay::receive_message(fd, kHelloMs, kMaxCall);
    if (!hello || !hello->is_object() || !hello->contains("hello")) return;
    Json ours = identity_;
    ours["pid"] = ::getpid();
    if (!replay::send_message(fd, Json{{"hub", ours}})) return;
    for (;;) {
      pollfd p{fd, POLLIN | POLLRDHUP, 0};
      if (::poll(&p, 1, 1000) == 0) {
        if (stopping_) return;
        continue;
      }
      auto message = replay::receive_message(fd, kHelloMs, kMaxCall);
      if (!message || !message->is_object()) return;
      if (!answer(fd, *message)) return;
    }
  }

  bool answer(int fd, const Json& message) {
    std::string verb;
    Core::Caller caller;
    Json arguments = Json::object();
    Json environment;
    try {
      read_required(message, "verb", verb);
      read_optional(message, "arguments", arguments);
      read_optional(message, "front_end", caller.front_end);
      read_optional(message, "environment", environment);
      if (environment.is_object())
        caller.environment = std::make_shared<const Variables>(environment.get<Variables>());
    } catch (const std::exception& e) {
      return send(fd, {{"error", Error{ErrorCode::usage, std::string("not a call: ") + e.what(), "", 0}}});
    }
    const auto progress = [&](const Progress& p) {
      send(fd, {{"progress", {{"line", p.line}, {"done", p.done}, {"total", p.total}, {"place", p.place}}}});
    };
    const auto cancelled = [fd] { return gone(fd); };
    if (verb == "hub.stop") return stop(fd, arguments);
    if (verb == "device.hold") {
      auto held = core_.hold(caller, progress, cancelled);
      if (!held) return send(fd, {{"error", held.error()}});
      if (!send(fd, {{"result", Json::object()}})) return false;
      while (!gone(fd) && !stopping_) {
        pollfd p{fd, POLLIN | POLLRDHUP, 0};
        ::poll(&p, 1, 200);
      }
      return false;
    }
    if (verb == "hub.status") return send(fd, {{"result", status()}});
    const auto result = core_.call(verb, arguments, caller, progress, cancelled);
    return send(fd, result ? Json{{"result", *result}} : Json{{"error", result.error()}});
  }

  Json status() {
    Json j = core_.call("hub.status", Json::object(), {}, {}, {}).value_or(Json::object());
    j["socket"] = socket_.string();
    return j;
  }

  bool stop(int fd, const Json& arguments) {
    const bool force = arguments.is_object() && arguments.value("force", false);
    if (!force && core_.at_work() > 0)
      return send(fd, {{"error", Error{ErrorCode::illegal_state,
                                       fmt::format("the hub has {} calls or jobs at work", core_.at_work()),
                                       "wait for them, or klab hub stop --force, which cancels them", 0}}});
    stopping_ = true;
    ::unlink(socket_.c_str());  // whoever asks once this is answered finds no hub
    send(fd, {{"result", {{"stopping", true}, {"pid", ::getpid()}}}});
    return false;
  }

  static bool send(int fd, const Json& message) { return replay::send_message(fd, message).has_value(); }

  Core& core_;
  const ServeOptions options_;
  const fs::path socket_;
  const Json identity_ = identity();
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::condition_variable left_;
  std::list<int> open_;
  int there_ = 0;
};

Result<Fd> listen_at(const fs::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.string().size() >= sizeof address.sun_path)
    return fail(ErrorCode::environment, path.string() + " is too long for a socket",
                "set XDG_RUNTIME_DIR to a short path");
  std::copy_n(path.c_str(), path.string().size() + 1, address.sun_path);
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return fail_errno(errno, "socket");
  ::unlink(path.c_str());
  const mode_t before = ::umask(0177);
  const int bound = ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  ::umask(before);
  if (bound != 0) return fail_errno(errno, "binding " + path.string());
  if (::listen(fd.get(), 64) != 0) return fail_errno(errno, "listen");
  return fd;
}

}  // namespace

Status serve(const ServeOptions& options, const std::function<bool()>& stop) {
  KLAB_TRY(const fs::path path, socket_path());
  const Fd lock(::open((path.string() + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock) return fail_errno(errno, "opening the hub's lock");
  // One that has let go of its socket is about to leave: its lock is waited for.
  const auto deadline = Clock::now() + kLeaveLimit;
  bool ours = false;
  while (!(ours = ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) && !fs::exists(path) && Clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  if (!ours)
    return fail(ErrorCode::illegal_state, "a hub serves this home already", "klab hub status");
  KLAB_TRY_VOID(make_folders(klab_home()));
  {
    KLAB_TRY(session::Store store, session::Store::open(klab_home() / "klab.sqlite"));
    KLAB_TRY_VOID(ops::recover_sessions(store, klab_home()));
  }
  Core core;
  KLAB_TRY(const Fd listening, listen_at(path));
  {
    Server server(core, options, path);
    server.run(listening.get(), stop);
    ::unlink(path.c_str());  // who comes now starts another, which waits for our lock
  }
  return {};
}

}  // namespace klab::hub
