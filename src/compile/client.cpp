// SPDX-License-Identifier: Apache-2.0
// Both ways to reach klab-compile: once (run_compiler) and warm (Compiler).
#include "compile/client.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>

#include <fmt/format.h>

#include "base/environment.h"
#include "base/subprocess.h"
#include "compile/cuda/toolkit.h"

namespace klab::compile {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kMaxAnswer = 256u << 20;

std::string last_lines(std::string_view text, int lines) {
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  std::size_t at = text.size();
  while (lines-- > 0 && at != std::string_view::npos && at > 0) at = text.rfind('\n', at - 1);
  return std::string(at == std::string_view::npos || at == 0 ? text : text.substr(at + 1));
}

Answer failed_answer(std::string what, std::string_view err, std::string hint) {
  Answer answer;
  if (const std::string tail = last_lines(err, 8); !tail.empty()) what += "; its last words: " + tail;
  answer.error = Error{ErrorCode::compile_failed, std::move(what), std::move(hint)};
  answer.log = std::string(err);
  return answer;
}

std::string subject(const Request& request) { return request.source.empty() ? "the source" : request.source; }

Answer timed_out(const Request& request, double limit_s, std::string_view err) {
  return failed_answer(
      fmt::format("the compiler did not finish {} within {} s and was ended", subject(request), limit_s), err,
      "look for a loop that is unrolled without end, or lower the optimisation");
}

Answer crashed(const Request& request, const ExitStatus& status, std::string_view err) {
  return failed_answer(
      fmt::format("the compiler crashed on {}: klab-compile {}", subject(request), to_string(status)), err,
      request.language == "hip" && request.options.compiler != "hipcc"
          ? "hiprtc of this ROCm may not know the processor; --compiler hipcc says more"
          : "try another optimisation level; a smaller source that still crashes helps");
}

Answer unusable(const Request& request, const std::string& how, const Error& error, std::string_view err) {
  return failed_answer(
      fmt::format("klab-compile {} without a usable answer on {}: {}", how, subject(request), error.what),
      err, "build or install Klab again");
}

Result<std::string> text_of(const Request& request) {
  try {
    return Json(request).dump();
  } catch (const std::exception& e) {
    return fail(ErrorCode::usage,
                fmt::format("a path or option given to the compiler is not UTF-8: {}", e.what()),
                "rename the file or folder");
  }
}

Result<Answer> answer_of(const std::string& text, const Request& request) {
  KLAB_TRY(const Json json, parse_json(text, "klab-compile's answer"));
  KLAB_TRY(Answer answer, decode_json<Answer>(json, "klab-compile's answer"));
  if (!answer.ok && !answer.error) return fail(ErrorCode::invalid_data, "it names no error");
  if (answer.batch.size() != request.batch.size())
    return fail(ErrorCode::invalid_data,
                fmt::format("{} answers to {} requests", answer.batch.size(), request.batch.size()));
  return answer;
}

tl::unexpected<Error> not_started(Error error) {
  if (error.code == ErrorCode::not_found || error.code == ErrorCode::environment)
    return fail(ErrorCode::environment, fmt::format("klab-compile cannot be run: {}", error.what),
                fmt::format("it belongs at {}; build or install Klab again", compiler_program().string()));
  return fail(std::move(error));
}

}  // namespace

fs::path compiler_program() {
  const char* path = environment_value("KLAB_COMPILE");
  return path != nullptr && *path != '\0' ? fs::path(path) : program_folder() / "klab-compile";
}

Result<Answer> run_compiler(const Request& request, double limit_s) {
  KLAB_TRY(const std::string text, text_of(request));
  SpawnOptions spawn;
  spawn.argv = {compiler_program().string()};
  spawn.die_with_parent = true;
  auto finished = run_program(std::move(spawn), text,
                              std::chrono::milliseconds(static_cast<long>(limit_s * 1e3)), kMaxAnswer);
  if (!finished) return not_started(finished.error());
  if (finished->timed_out) return timed_out(request, limit_s, finished->err);
  if (finished->status.signal != 0) return crashed(request, finished->status, finished->err);
  auto answer = answer_of(finished->out, request);
  if (!answer) return unusable(request, to_string(finished->status), answer.error(), finished->err);
  return answer;
}

struct Compiler::Impl {
  Ask pooled;
  std::function<bool()> cancelled;
  std::optional<Child> child;
  Fd to, from, err;
  std::string identity;
  int requests = 0;

  static std::string identity_now() {
    std::error_code ec;
    return file_identity(compiler_program()) + "\n" + fs::current_path(ec).string() + "\n" +
           toolkit_identity();
  }

  ~Impl() { stop(); }

  // At the end of its input it removes what it keeps and ends; one that is busy or hangs is killed.
  void stop(std::chrono::milliseconds patience = std::chrono::milliseconds(500)) {
    to = Fd();
    if (child) (void)child->wait(patience);
    child.reset();
    from = Fd();
    err = Fd();
  }

  Status start() {
    stop();
    int in[2], out[2];
    if (::pipe2(in, O_CLOEXEC) != 0) return fail_errno(errno, "pipe");
    Fd in_read(in[0]), in_write(in[1]);
    if (::pipe2(out, O_CLOEXEC) != 0) return fail_errno(errno, "pipe");
    Fd out_read(out[0]), out_write(out[1]);
    Fd words(::memfd_create("klab-compile's words", MFD_CLOEXEC));
    if (!words) return fail_errno(errno, "memfd_create");
    SpawnOptions spawn;
    spawn.argv = {compiler_program().string(), "--serve"};
    spawn.in = in_read.get();
    spawn.out = out_write.get();
    spawn.err = words.get();
    spawn.die_with_parent = true;
    auto started = Child::spawn(spawn);
    if (!started) return not_started(started.error());
    // A writer that finds no reader gets an error, not a signal, and no write blocks past the deadline.
    (void)::fcntl(in_write.get(), F_SETFL, O_NONBLOCK);
    (void)::fcntl(out_read.get(), F_SETFL, O_NONBLOCK);
    child.emplace(std::move(*started));
    to = std::move(in_write);
    from = std::move(out_read);
    err = std::move(words);
    requests = 0;
    return {};
  }

  std::string words() const {
    std::string text(1 << 16, '\0');
    const off_t size = ::lseek(err.get(), 0, SEEK_END);
    const off_t begin = std::max<off_t>(0, size - static_cast<off_t>(text.size()));
    const ssize_t n = ::pread(err.get(), text.data(), text.size(), begin);
    text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return text;
  }

  enum class Told { answer, end, late, stopped };
  // Sends one line and takes one line; reading goes on while writing does, so that neither side waits for the
  // other.
  Told exchange(const std::string& line, std::string& answer, Clock::time_point deadline) {
    struct sigaction ignore {
    }, before{};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGPIPE, &ignore, &before);
    std::size_t sent = 0;
    Told told = Told::end;
    std::string buffer(1 << 16, '\0');
    for (;;) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
      if (left <= 0) {
        told = Told::late;
        break;
      }
      if (cancelled && cancelled()) {
        told = Told::stopped;
        break;
      }
      pollfd fds[2] = {{from.get(), POLLIN, 0}, {to.get(), POLLOUT, 0}};
      const nfds_t count = sent < line.size() ? 2 : 1;
      const int ready = ::poll(fds, count, static_cast<int>(std::min<long long>(left, cancelled ? 50 : 1 << 30)));
      if (ready < 0 && errno != EINTR) break;
      if (ready <= 0) continue;
      if (count == 2 && (fds[1].revents & (POLLOUT | POLLERR)) != 0) {
        const ssize_t n = ::write(to.get(), line.data() + sent, line.size() - sent);
        if (n > 0) sent += static_cast<std::size_t>(n);
        if (n < 0 && errno != EAGAIN && errno != EINTR) sent = line.size();  // its end is read below
      }
      if ((fds[0].revents & (POLLIN | POLLHUP)) != 0) {
        const ssize_t n = ::read(from.get(), buffer.data(), buffer.size());
        if (n == 0) break;
        if (n < 0 && errno != EAGAIN && errno != EINTR) break;
        if (n > 0) answer.append(buffer.data(), static_cast<std::size_t>(n));
        if (answer.size() > kMaxAnswer) break;
        if (!answer.empty() && answer.back() == '\n') {
          told = Told::answer;
          break;
        }
      }
    }
    ::sigaction(SIGPIPE, &before, nullptr);
    return told;
  }
};

Compiler::Compiler() : impl_(std::make_unique<Impl>()) {}
Compiler::Compiler(Ask ask) : Compiler() { impl_->pooled = std::move(ask); }
Compiler::Compiler(Compiler&&) noexcept = default;
Compiler& Compiler::operator=(Compiler&&) noexcept = default;
Compiler::~Compiler() = default;

bool Compiler::running() const { return impl_->child.has_value(); }
void Compiler::stop_when(std::function<bool()> cancelled) { impl_->cancelled = std::move(cancelled); }

Result<Answer> Compiler::ask(const Request& request, double limit_s) {
  if (impl_->pooled) return impl_->pooled(request, limit_s);
  KLAB_TRY(std::string text, text_of(request));
  text += '\n';
  std::string identity = Impl::identity_now();
  if (impl_->child && (identity != impl_->identity || impl_->requests >= kMaxRequests ||
                       impl_->child->wait(std::chrono::milliseconds(0))))
    impl_->stop();
  if (!impl_->child) {
    KLAB_TRY_VOID(impl_->start());
    impl_->identity = std::move(identity);
  }
  ++impl_->requests;
  std::string line;
  const auto told =
      impl_->exchange(text, line, Clock::now() + std::chrono::milliseconds(static_cast<long>(limit_s * 1e3)));
  if (told == Impl::Told::answer) {
    auto answer = answer_of(line, request);
    if (answer) return answer;
    const Answer bad = unusable(request, "answered", answer.error(), impl_->words());
    impl_->stop();
    return bad;
  }
  const std::string words = impl_->words();
  if (told == Impl::Told::stopped) {
    impl_->stop(std::chrono::milliseconds(0));
    return fail(ErrorCode::interrupted, fmt::format("interrupted while it compiled {}", subject(request)));
  }
  if (told == Impl::Told::late) {
    impl_->stop(std::chrono::milliseconds(0));
    return timed_out(request, limit_s, words);
  }
  const auto status = impl_->child->wait(std::chrono::seconds(5));
  impl_->stop();
  if (status && status->signal != 0) return crashed(request, *status, words);
  return unusable(request, status ? to_string(*status) : "closed its output",
                  Error{ErrorCode::invalid_data, "it ended", "", 0}, words);
}

}  // namespace klab::compile
