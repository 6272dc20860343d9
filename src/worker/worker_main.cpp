// SPDX-License-Identifier: Apache-2.0
// klab-worker: requests in and answers out on descriptor 3, until the other end closes it. Its log is stderr.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "worker/confine.h"
#include "worker/reexec.h"
#include "worker/server.h"

namespace {

using namespace klab;

volatile sig_atomic_t stop_asked = 0;

int serve(char** argv, bool disposable) {
  using replay::kWorkerFd;
  Json message;  // the one that is being worked on
  worker::Server server({
      .progress =
          [disposable](const replay::Progress& p) {
            if (disposable) return;
            (void)replay::send_message(kWorkerFd,
                                       Json{{"progress", p.text}, {"done", p.done}, {"total", p.total}, {"waits", p.waits}});
          },
      .start_anew = [&] { return worker::start_anew(argv, message); },
      .stop = [] { return stop_asked != 0; },
  });
  auto pending = worker::take_pending();
  for (;;) {
    if (pending) {
      message = std::move(*pending);
      pending.reset();
    } else {
      auto received = replay::receive_message(kWorkerFd, -1);
      if (!received) {
        // A closed socket is the ordinary end.
        if (received.error().code == ErrorCode::worker_lost) return 0;
        if (received.error().code == ErrorCode::timeout) continue;
        std::fprintf(stderr, "klab-worker: %s\n", received.error().what.c_str());
        return 1;
      }
      message = std::move(*received);
    }
    if (disposable) {
      const Status status = server.probe(message);
      if (!status) {
        std::fprintf(stderr, "klab-worker --probe: %s\n", status.error().what.c_str());
        (void)replay::send_message(kWorkerFd, Json{{"error", status.error().what}});
      }
      return status ? 0 : 1;
    }
    stop_asked = 0;
    auto request = decode_json<replay::Request>(message, "request");
    replay::Answer answer;
    if (request && request->verb == "stop") return 0;
    if (request) {
      answer = server.handle(*request);
    } else {
      answer.outcome = replay::Outcome::failed;
      answer.error = request.error();
    }
    worker::forget_attempts();
    if (answer.error)
      std::fprintf(stderr, "klab-worker: %s: %s\n", replay::to_string(answer.outcome),
                   answer.error->what.c_str());
    if (!replay::send_message(kWorkerFd, answer)) return 0;
    if (server.finished()) return 3;  // nothing of a lost device is touched again
  }
}

}  // namespace

int main(int argc, char** argv) {
  const pid_t parent = ::getppid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) return 0;  // it died before the line above
  if (argc > 1 && std::strcmp(argv[1], "--confine") == 0) ::_exit(klab::worker::run_confined(argc, argv));
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(replay::kStopSignal, [](int) { stop_asked = 1; });
  ::signal(SIGINT, SIG_IGN);  // a terminal's ctrl-C is the front end's to handle
  const bool disposable = argc > 1 && std::strcmp(argv[1], "--probe") == 0;
  if (int type = 0; [&] {
        socklen_t size = sizeof type;
        return ::getsockopt(klab::replay::kWorkerFd, SOL_SOCKET, SO_TYPE, &type, &size) != 0;
      }()) {
    std::fprintf(stderr, "klab-worker is started by klab and talks on descriptor 3; there is none here.\n");
    return 2;
  }
  // No destructors of drivers or devices: they have been seen to hang.
  ::_exit(serve(argv, disposable));
}
