// SPDX-License-Identifier: Apache-2.0
// Length-prefixed JSON over a stream socket: u32 little endian, then text.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include <fmt/format.h>

#include "replay/protocol.h"

namespace klab::replay {
namespace {

using Clock = std::chrono::steady_clock;

Status receive_exactly(int fd, char* to, std::size_t size, Clock::time_point deadline) {
  while (size > 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left < 0) return fail(ErrorCode::timeout, "no message from the worker in time");
    pollfd p{fd, POLLIN, 0};
    const int ready = ::poll(&p, 1, static_cast<int>(std::min<long long>(left, 1 << 30)));
    if (ready < 0 && errno != EINTR) return fail_errno(errno, "poll");
    if (ready <= 0) continue;
    const ssize_t n = ::recv(fd, to, size, 0);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) return fail(ErrorCode::worker_lost, "the other end of the socket is gone");
    to += n;
    size -= static_cast<std::size_t>(n);
  }
  return {};
}

}  // namespace

Result<std::string> frame_of(const Json& message) {
  const std::string text = message.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kMaxMessage) return fail(ErrorCode::cap_reached, "message over 256 MiB");
  std::string frame(4, '\0');
  const auto size = static_cast<std::uint32_t>(text.size());
  std::memcpy(frame.data(), &size, 4);
  frame += text;
  return frame;
}

Status send_message(int fd, const Json& message) {
  KLAB_TRY(const std::string frame, frame_of(message));
  std::string_view rest = frame;
  while (!rest.empty()) {
    const ssize_t n = ::send(fd, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return fail(ErrorCode::worker_lost, "the other end of the socket is gone", {}, errno);
    rest.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

Result<Json> receive_message(int fd, int timeout_ms, std::size_t max_bytes) {
  const auto deadline = Clock::now() + std::chrono::milliseconds(timeout_ms < 0 ? 1 << 30 : timeout_ms);
  std::uint32_t size = 0;
  char prefix[4];
  KLAB_TRY_VOID(receive_exactly(fd, prefix, 4, deadline));
  std::memcpy(&size, prefix, 4);
  if (size > max_bytes) return fail(ErrorCode::invalid_data, fmt::format("message of {} bytes", size));
  // As much memory as has arrived, not as much as was announced.
  std::string text;
  while (text.size() < size) {
    const std::size_t have = text.size();
    text.resize(std::min<std::size_t>(size, std::max<std::size_t>(1 << 16, 2 * have)));
    KLAB_TRY_VOID(receive_exactly(fd, text.data() + have, text.size() - have, deadline));
  }
  return parse_json(text, "worker message");
}

}  // namespace klab::replay
