// SPDX-License-Identifier: Apache-2.0
#include "mcp/stdio.h"

#include <poll.h>
#include <unistd.h>

#include <condition_variable>
#include <thread>

#include <fmt/format.h>

#include "base/files.h"

namespace klab::mcp {
namespace {

/// Threads that are still to be waited for.
class Crowd {
 public:
  void start(std::function<void()> work) {
    {
      std::lock_guard lock(mutex_);
      ++there_;
    }
    std::thread([this, work = std::move(work)] {
      work();
      std::lock_guard lock(mutex_);
      --there_;
      left_.notify_all();
    }).detach();
  }
  ~Crowd() {
    std::unique_lock lock(mutex_);
    left_.wait(lock, [&] { return there_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable left_;
  int there_ = 0;
};

}  // namespace

void serve_stdio(Server& server, int in, int out, const std::function<bool()>& stop) {
  std::mutex writing;
  std::atomic<bool> broken{false};
  const Send send = [&](const Json& message) {
    const std::string line = write_message(message) + "\n";
    std::lock_guard lock(writing);
    if (!broken && !write_all(out, std::as_bytes(std::span(line)))) broken = true;
    return !broken;
  };
  Connection connection(server);
  Crowd crowd;                             // ends before `connection` and what `send` uses
  const auto gone = [] { return false; };  // a pipe that breaks ends the loop below
  const auto receive = [&](std::string_view line) {
    RpcMessage message = read_message(line);
    if (auto* bad = std::get_if<RpcBad>(&message)) {
      send(bad->answer);
    } else if (auto* response = std::get_if<RpcResponse>(&message)) {
      connection.take(*response);
    } else if (auto* notification = std::get_if<RpcNotification>(&message)) {
      connection.notice(*notification);
    } else if (auto& request = std::get<RpcRequest>(message); request.method == "initialize") {
      if (const Json answer = connection.answer(request, send, gone); !answer.is_null()) send(answer);
    } else {
      crowd.start([&, request = std::move(request)] {
        if (const Json answer = connection.answer(request, send, gone); !answer.is_null()) send(answer);
      });
    }
  };
  std::string pending;
  bool skipping = false;  // the rest of a line that was too long
  std::vector<char> buffer(1 << 16);
  while (!stop() && !broken) {
    pollfd p{in, POLLIN, 0};
    if (::poll(&p, 1, 100) <= 0) continue;
    const ssize_t n = ::read(in, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    pending.append(buffer.data(), static_cast<std::size_t>(n));
    std::size_t from = 0;
    for (std::size_t end; (end = pending.find('\n', from)) != std::string::npos; from = end + 1) {
      std::string_view line(pending.data() + from, end - from);
      if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
      if (skipping)
        skipping = false;
      else if (line.find_first_not_of(" \t") != std::string_view::npos)
        receive(line);
    }
    pending.erase(0, from);
    if (pending.size() > kMaxMessage) {
      if (!skipping)
        send(
            rpc_error(nullptr, kInvalidRequest, fmt::format("a message of more than {} bytes", kMaxMessage)));
      skipping = true;
      pending.clear();
    }
  }
  connection.close();
}

}  // namespace klab::mcp
