// SPDX-License-Identifier: Apache-2.0
// MCP messages, as a client may send them: read, dispatched to the tools, answered by a stub.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "mcp/server.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace klab;
  static mcp::Server server(
      {.roots = {"/nowhere"}, .programs = {{"p", {{"/bin/true"}, "/"}}}, .save_roots = {}, .read_only = false},
      [](const std::string& verb, const Json& arguments, const hub::OnProgress&, const std::function<bool()>&) -> Result<Json> {
        if (!arguments.is_object()) std::abort();  // verbs are only ever called with objects
        if (verb == "job.start") return Json{{"job", 1}};
        if (verb == "job.wait") return Json{{"job", {{"id", 1}, {"state", "done"}, {"result", Json::object()}}}};
        if (verb == "session.list") return Json{{"sessions", Json::array()}};
        if (verb == "session.build") return Json{{"variant", {{"id", "v1"}}}};
        if (verb == "session.save") return Json{{"state", "preview"}, {"token", "t"}, {"file", "/nowhere/x"}, {"diff", "-a\n+b\n"}};
        if (verb == "session.report") return Json{{"report", "text"}};
        return Json::object();
      },
      "fuzz");
  mcp::Connection connection(server);
  const mcp::Send send = [](const Json& message) {
    (void)mcp::write_message(message);
    return false;  // nobody answers a question
  };
  const auto never = [] { return false; };
  (void)connection.answer({1, "initialize", {{"protocolVersion", "2025-11-25"}}}, send, never);
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  while (!rest.empty()) {
    const auto end = rest.find('\n');
    mcp::RpcMessage message = mcp::read_message(rest.substr(0, end));
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    if (auto* request = std::get_if<mcp::RpcRequest>(&message)) {
      const Json answer = connection.answer(*request, send, never);
      const std::string text = mcp::write_message(answer);
      // What we say must be a message itself.
      if (!answer.is_null() && !std::holds_alternative<mcp::RpcResponse>(mcp::read_message(text)) && text.size() < mcp::kMaxMessage)
        std::abort();
    } else if (auto* notification = std::get_if<mcp::RpcNotification>(&message)) {
      connection.notice(*notification);
    } else if (auto* response = std::get_if<mcp::RpcResponse>(&message)) {
      connection.take(*response);
    }
  }
  return 0;
}
