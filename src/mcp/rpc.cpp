// SPDX-License-Identifier: Apache-2.0
#include "mcp/rpc.h"

#include <fmt/format.h>

namespace klab::mcp {
namespace {

RpcBad bad(const Json& id, int code, std::string_view why) { return {rpc_error(id, code, why)}; }

// MCP narrows JSON-RPC: an id is a text or an integer, never null and no fraction.
bool valid_id(const Json& id) { return id.is_number_integer() || (id.is_string() && id.get_ref<const std::string&>().size() <= 1024); }

}  // namespace

RpcMessage read_message(std::string_view line) {
  if (line.size() > kMaxMessage)
    return bad(nullptr, kInvalidRequest, fmt::format("a message of {} bytes; at most {} are read", line.size(), kMaxMessage));
  auto parsed = parse_json(line, "the message", kMaxMessage);
  if (!parsed) return bad(nullptr, kParseError, parsed.error().what);
  const Json& j = *parsed;
  if (j.is_array()) return bad(nullptr, kInvalidRequest, "batches are not part of this protocol: send one message a line");
  if (!j.is_object()) return bad(nullptr, kInvalidRequest, "a message is a JSON object");
  const auto id_at = j.find("id");
  const bool has_id = id_at != j.end();
  const Json id = has_id && valid_id(*id_at) ? *id_at : Json();
  const auto version = j.find("jsonrpc");
  if (version == j.end() || *version != "2.0") return bad(id, kInvalidRequest, "\"jsonrpc\" must be \"2.0\"");
  const auto method = j.find("method");
  if (method == j.end()) {
    const bool result = j.contains("result"), error = j.contains("error");
    if (!has_id || result == error) return bad(id, kInvalidRequest, "neither a request nor a response");
    if (id.is_null()) return bad(nullptr, kInvalidRequest, "a response without a usable id");
    RpcResponse response{id, std::nullopt, nullptr};
    if (result)
      response.result = j["result"];
    else
      response.error = j["error"];
    return response;
  }
  if (!method->is_string() || method->get_ref<const std::string&>().empty())
    return bad(id, kInvalidRequest, "\"method\" must be a text");
  if (method->get_ref<const std::string&>().size() > 256) return bad(id, kInvalidRequest, "a method name of more than 256 bytes");
  Json params = Json::object();
  if (const auto p = j.find("params"); p != j.end()) {
    if (!p->is_object()) return bad(id, kInvalidParams, "\"params\" must be an object");
    params = *p;
  }
  if (!has_id) return RpcNotification{method->get<std::string>(), std::move(params)};
  if (id.is_null()) return bad(nullptr, kInvalidRequest, "an id is a text or an integer");
  return RpcRequest{id, method->get<std::string>(), std::move(params)};
}

Json rpc_result(const Json& id, Json result) {
  return Json{{"jsonrpc", "2.0"}, {"id", id}, {"result", std::move(result)}};
}

Json rpc_error(const Json& id, int code, std::string_view message, Json data) {
  Json error{{"code", code}, {"message", message}};
  if (!data.is_null()) error["data"] = std::move(data);
  return Json{{"jsonrpc", "2.0"}, {"id", id}, {"error", std::move(error)}};
}

Json rpc_notification(std::string_view method, Json params) {
  return Json{{"jsonrpc", "2.0"}, {"method", method}, {"params", std::move(params)}};
}

std::string write_message(const Json& message) { return message.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace klab::mcp
