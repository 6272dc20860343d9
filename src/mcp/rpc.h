// SPDX-License-Identifier: Apache-2.0
// JSON-RPC 2.0 as MCP uses it: one message a line, no batches. Text to messages and back; no transport, no methods.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/error.h"
#include "base/json.h"

namespace klab::mcp {

inline constexpr std::size_t kMaxMessage = 16u << 20;  // bytes of one message

/// Error numbers of JSON-RPC 2.0 (section 5.1).
enum RpcError : int {
  kParseError = -32700,
  kInvalidRequest = -32600,
  kMethodNotFound = -32601,
  kInvalidParams = -32602,
  kInternalError = -32603
};

struct RpcRequest {
  Json id;  // text or integer
  std::string method;
  Json params;  // an object; empty when there were none
};
struct RpcNotification {
  std::string method;
  Json params;
};
struct RpcResponse {
  Json id;
  std::optional<Json> result;  // else `error`
  Json error;
};
/// What a message that is none of these is answered with.
struct RpcBad {
  Json answer;
};
using RpcMessage = std::variant<RpcRequest, RpcNotification, RpcResponse, RpcBad>;

/// Never fails: what does not parse, is too long or too deep, or is no message becomes RpcBad. Foreign bytes.
RpcMessage read_message(std::string_view line);

Json rpc_result(const Json& id, Json result);
Json rpc_error(const Json& id, int code, std::string_view message, Json data = nullptr);
Json rpc_notification(std::string_view method, Json params);
/// One line without its end; text that is not UTF-8 has U+FFFD in place of each bad sequence.
std::string write_message(const Json& message);

}  // namespace klab::mcp
