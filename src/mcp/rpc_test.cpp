// SPDX-License-Identifier: Apache-2.0
#include "mcp/rpc.h"

#include <gtest/gtest.h>

namespace klab::mcp {
namespace {

int error_of(std::string_view line) {
  const RpcMessage m = read_message(line);
  const auto* bad = std::get_if<RpcBad>(&m);
  return bad == nullptr ? 0 : bad->answer["error"]["code"].get<int>();
}

TEST(Rpc, requests_notifications_and_responses_are_told_apart) {
  const RpcMessage request = read_message(R"({"jsonrpc":"2.0","id":"a","method":"tools/list","params":{"cursor":"x"}})");
  ASSERT_TRUE(std::holds_alternative<RpcRequest>(request));
  EXPECT_EQ(std::get<RpcRequest>(request).params["cursor"], "x");
  const RpcMessage bare = read_message(R"({"jsonrpc":"2.0","id":0,"method":"ping"})");
  ASSERT_TRUE(std::holds_alternative<RpcRequest>(bare));
  EXPECT_TRUE(std::get<RpcRequest>(bare).params.is_object());
  EXPECT_TRUE(std::holds_alternative<RpcNotification>(read_message(R"({"jsonrpc":"2.0","method":"notifications/x"})")));
  const RpcMessage response = read_message(R"({"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"no"}})");
  ASSERT_TRUE(std::holds_alternative<RpcResponse>(response));
  EXPECT_FALSE(std::get<RpcResponse>(response).result);
}

TEST(Rpc, what_is_no_message_gets_the_protocols_error_and_its_own_id) {
  EXPECT_EQ(error_of("{\"jsonrpc\":"), kParseError);
  EXPECT_EQ(error_of(""), kParseError);
  EXPECT_EQ(error_of("\xff\xfe"), kParseError);
  EXPECT_EQ(error_of("[]"), kInvalidRequest);
  EXPECT_EQ(error_of("42"), kInvalidRequest);
  EXPECT_EQ(error_of(R"({"id":1,"method":"x"})"), kInvalidRequest);
  EXPECT_EQ(error_of(R"({"jsonrpc":"2.0","id":1})"), kInvalidRequest);
  EXPECT_EQ(error_of(R"({"jsonrpc":"2.0","id":null,"method":"x"})"), kInvalidRequest);
  EXPECT_EQ(error_of(R"({"jsonrpc":"2.0","id":1.5,"method":"x"})"), kInvalidRequest);
  EXPECT_EQ(error_of(R"({"jsonrpc":"2.0","id":1,"method":5})"), kInvalidRequest);
  EXPECT_EQ(error_of(R"({"jsonrpc":"2.0","id":1,"result":1,"error":2})"), kInvalidRequest);
  const RpcMessage m = read_message(R"({"jsonrpc":"2.0","id":9,"method":"x","params":[1]})");
  EXPECT_EQ(std::get<RpcBad>(m).answer["id"], 9);
  EXPECT_EQ(std::get<RpcBad>(m).answer["error"]["code"], kInvalidParams);
}

TEST(Rpc, depth_and_length_are_limited_before_anything_is_built) {
  EXPECT_EQ(error_of(std::string(100'000, '[')), kParseError);
  std::string nested = R"({"jsonrpc":"2.0","id":1,"method":"x","params":{"a":)" + std::string(100'000, '[') +
                       std::string(100'000, ']') + "}}";
  EXPECT_NE(error_of(nested), 0);
  EXPECT_EQ(error_of(std::string(kMaxMessage + 1, ' ')), kInvalidRequest);
}

TEST(Rpc, what_is_written_is_one_line_of_utf_8) {
  const std::string line = write_message(rpc_error("i\n", kInvalidParams, "bad \xff text\n"));
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_TRUE(Json::accept(line));
}

}  // namespace
}  // namespace klab::mcp
