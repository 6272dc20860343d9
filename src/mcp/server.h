// SPDX-License-Identifier: Apache-2.0
// The protocol, both eras of it: 2025-11-25 and before (a handshake, then state) and 2026-07-28 (every
// request says who asks and what he can do). No transport: those are stdio.h and http.h.
#pragma once
#include <atomic>
#include <future>
#include <memory>
#include <set>

#include "mcp/rpc.h"
#include "mcp/tools.h"

namespace klab::mcp {

inline constexpr std::string_view kModern = "2026-07-28";
/// Newest first.
inline constexpr std::string_view kLegacy[] = {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"};

/// Error numbers of MCP: 2026-07-28, and the last one of before.
enum McpError : int {
  kHeaderMismatch = -32020,
  kMissingCapability = -32021,
  kUnsupportedVersion = -32022,
  kResourceNotFound = -32002
};

/// Sends one message to the client: thread-safe, never blocks for long, false when the client is gone.
using Send = std::function<bool(const Json& message)>;

/// What all connections share. Thread: any.
class Server {
 public:
  Server(const Allowed& allowed, Call call, std::string version);
  const std::vector<Tool>& tools() const { return tools_; }
  const Call& call() const { return call_; }
  Json info() const;
  Json capabilities() const;
  std::string instructions() const;

  /// A question that waits for its answer in a later call (2026-07-28): an opaque text that only we can have
  /// made.
  std::string remember(const std::string& state);
  /// What was remembered under it, once. Empty: not ours, used, or over an hour old.
  std::optional<std::string> recall(const std::string& request_state);

 private:
  struct Pending {
    std::string state;
    std::chrono::steady_clock::time_point until;
  };
  std::vector<Tool> tools_;
  Call call_;
  std::string version_;
  std::mutex mutex_;
  std::map<std::string, Pending> pending_;
};

/// One client: the whole of a stdio server's life, or one session of HTTP. Thread: any; requests run at once.
class Connection {
 public:
  explicit Connection(Server& server) : server_(server) {}

  /// The answer to a request, or null when it was cancelled: then nothing is sent. `send` is for what goes to
  /// the client before that: progress, and questions of the older protocol. `closed` is polled: the client
  /// took his request back by closing its stream. Blocks while the work lasts.
  Json answer(const RpcRequest& request, const Send& send, const std::function<bool()>& closed);
  void notice(const RpcNotification& notification);
  /// The client's answer to a question of ours.
  void take(const RpcResponse& response);
  /// The client is gone: plain calls end, jobs go on.
  void close();

 private:
  struct Running {
    std::atomic<bool> cancelled{false}, left{false};
  };
  struct Caller;  // who asks: era, abilities, how to reach him
  Json initialize(const Json& params);
  Result<Json> dispatch(const RpcRequest& request, Caller& caller);
  Result<Json> call_tool(const Json& params, Caller& caller);
  Said ask(Caller& caller, const std::string& message, const std::string& state);

  Server& server_;
  std::mutex mutex_;
  std::string version_;  // of the handshake
  bool can_elicit_ = false;
  std::map<std::string, std::shared_ptr<Running>> running_;  // by id
  std::map<std::string, std::shared_ptr<std::promise<Json>>> questions_;
  std::uint64_t next_question_ = 1;
  bool closed_ = false;
};

}  // namespace klab::mcp
