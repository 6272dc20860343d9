// SPDX-License-Identifier: Apache-2.0
// Supervision: one warm klab-worker, ended and replaced after a fault, a hang, or its budget.
#include "replay/worker.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include <fmt/format.h>

#include "base/environment.h"
#include "base/subprocess.h"

namespace klab::replay {
namespace {
using Clock = std::chrono::steady_clock;

// A driver that hangs in its own clean-up is not waited for.
constexpr std::chrono::milliseconds kGoodbye{500};
// The worker answers `timeout` itself when it can; this is for when it cannot.
constexpr double kGraceSeconds = 5;
// For a comparison to end the block at work and to answer.
constexpr std::chrono::seconds kStopGrace{15};

/// Copies `from` into a file up to a cap, then says so once and drops the rest.
void keep_log(Fd from, fs::path file, std::uint64_t cap) {
  Fd out(file.empty() ? -1 : ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  std::uint64_t written = 0;
  char buffer[1 << 14];
  for (;;) {
    const ssize_t n = ::read(from.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    if (!out || written >= cap) continue;
    const auto take = std::min<std::uint64_t>(static_cast<std::uint64_t>(n), cap - written);
    (void)write_all(out.get(), std::as_bytes(std::span(buffer, take)));
    written += take;
    if (written >= cap) {
      const std::string line = fmt::format("\n[klab: log is cut at {} bytes]\n", cap);
      (void)write_all(out.get(), std::as_bytes(std::span(line)));
    }
  }
}

Outcome outcome_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::timeout:
      return Outcome::timeout;
    case ErrorCode::device_fault:
      return Outcome::device_fault;
    default:
      return Outcome::worker_lost;
  }
}

}  // namespace

struct Worker::Impl {
  Options options;
  std::optional<Child> child;
  std::atomic<pid_t> pid{0};
  Fd socket;
  std::thread logger;

  Status start() {
    const char* override_path = environment_value("KLAB_WORKER");
    const fs::path program =
        override_path != nullptr && *override_path != '\0' ? fs::path(override_path) : program_folder() / "klab-worker";
    if (::access(program.c_str(), X_OK) != 0)
      return fail(ErrorCode::environment, fmt::format("{} is not there or may not be run", program.string()),
                  "reinstall klab, or build it whole: ./demo does that");
    int ends[2], log[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      return fail_errno(errno, "socketpair");
    Fd ours(ends[0]), theirs(ends[1]);
    if (::pipe2(log, O_CLOEXEC) != 0) return fail_errno(errno, "pipe");
    Fd log_read(log[0]), log_write(log[1]);
    SpawnOptions spawn{.argv = {program.string()},
                       .environment = options.environment,
                       .out = log_write.get(),
                       .err = log_write.get(),
                       .extra_fds = {{kWorkerFd, theirs.get()}},
                       .die_with_parent = true};
    KLAB_TRY(child, Child::spawn(spawn));
    pid = child->pid();
    socket = std::move(ours);
    logger = std::thread(keep_log, std::move(log_read), options.log, options.log_cap);
    return {};
  }

  void end() {
    socket = Fd();  // the worker leaves when its socket closes
    if (child) {
      if (!child->wait(kGoodbye)) child->kill(SIGKILL);
      child.reset();
    }
    pid = 0;
    if (logger.joinable()) logger.join();
  }

  /// What became of the worker, for a person.
  std::string obituary() {
    const auto status = child->wait(std::chrono::milliseconds(200));
    return status ? "the worker " + to_string(*status) : "the worker closed its socket";
  }
};

Worker::Worker() : Worker(Options{}) {}
Worker::Worker(Options options) : impl_(std::make_unique<Impl>()) { impl_->options = std::move(options); }
Worker::Worker(Worker&&) noexcept = default;
Worker::~Worker() {
  if (impl_) impl_->end();
}

pid_t Worker::pid() const { return impl_->pid; }

bool Worker::running() {
  if (impl_->child && impl_->child->wait(std::chrono::milliseconds(0))) impl_->end();
  return impl_->child.has_value();
}

Result<Answer> Worker::ask(const Request& request, const OnProgress& progress,
                           const std::function<bool()>& cancelled) {
  if (!running()) KLAB_TRY_VOID(impl_->start());  // one that died while it was idle costs nobody anything
  auto lost = [&](ErrorCode code, std::string what) {
    Answer answer;
    answer.outcome = outcome_of(code);
    answer.error = Error{code, std::move(what), "run the command again: a new worker is started"};
    if (!impl_->options.log.empty()) answer.error->hint += "; its log is " + impl_->options.log.string();
    answer.asked = request.conditions;
    impl_->end();
    return answer;
  };
  if (auto sent = send_message(impl_->socket.get(), request); !sent)
    return lost(ErrorCode::worker_lost, impl_->obituary() + " before the request");

  auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                           std::chrono::duration<double>(request.budget_s + kGraceSeconds));
  std::optional<Clock::time_point> stop_by;
  bool timing = false;  // a comparison has begun to measure
  bool waits = false;  // for the device, which others hold: no part of the budget
  for (auto before = Clock::now();;) {
    const auto now_is = Clock::now();
    if (waits) deadline += now_is - before;
    before = now_is;
    if (cancelled && cancelled() && !stop_by) {
      // A comparison keeps what it has; anything else has nothing to keep.
      stop_by = Clock::now() + (request.verb == "compare" && timing ? kStopGrace : std::chrono::seconds(0));
      impl_->child->kill(kStopSignal);
    }
    if (stop_by && Clock::now() >= *stop_by) {
      impl_->child->kill(SIGKILL);
      impl_->end();
      return fail(ErrorCode::interrupted, "interrupted; nothing was kept of this run");
    }
    if (Clock::now() > deadline) {
      impl_->child->kill(SIGKILL);
      return lost(ErrorCode::timeout,
                  fmt::format("no answer within the budget of {} s; the worker was ended", request.budget_s));
    }
    pollfd p{impl_->socket.get(), POLLIN, 0};
    if (::poll(&p, 1, 50) <= 0) continue;
    auto message = receive_message(impl_->socket.get(), 60000);
    if (!message)
      return lost(ErrorCode::worker_lost, impl_->obituary() + " while it worked on " + request.verb);
    if (message->is_object() && message->contains("progress")) {
      Progress now;
      try {
        read_optional(*message, "progress", now.text);
        read_optional(*message, "done", now.done);
        read_optional(*message, "total", now.total);
        read_optional(*message, "waits", now.waits);
      } catch (const std::exception&) {
        continue;
      }
      waits = now.waits;
      timing = timing || now.text.rfind("comparing", 0) == 0;
      if (progress) progress(now);
      continue;
    }
    auto answer = decode_json<Answer>(*message, "worker's answer");
    if (!answer) return lost(ErrorCode::worker_lost, answer.error().what);
    // After these a driver's state is not to be trusted.
    if (answer->outcome == Outcome::device_fault || answer->outcome == Outcome::timeout) impl_->end();
    for (const VariantAnswer& v : answer->variants)
      if (impl_->child && (v.outcome == Outcome::device_fault || v.outcome == Outcome::timeout)) impl_->end();
    return answer;
  }
}

}  // namespace klab::replay
