// SPDX-License-Identifier: Apache-2.0
#include "mcp/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/ids.h"

namespace klab::mcp {
namespace {

using testing::HasSubstr;

/// A laboratory that remembers what it was asked for.
struct Stub {
  std::vector<std::pair<std::string, Json>> calls;
  std::atomic<bool> job_runs{false};
  Result<Json> operator()(const std::string& verb, const Json& a, const hub::OnProgress&,
                          const std::function<bool()>&) {
    std::lock_guard lock(mutex);
    calls.emplace_back(verb, a);
    if (verb == "job.start") return Json{{"job", 7}};
    if (verb == "job.wait")
      return job_runs ? Json{{"job", {{"id", 7}, {"state", "running"}}},
                             {"progress", {{"line", "timing"}, {"done", calls.size()}, {"total", 1000}}}}
                      : Json{{"job", {{"id", 7}, {"state", "done"}, {"result", {{"run", 3}}}}}};
    if (verb == "job.cancel") return Json{{"job", {{"id", 7}, {"state", "cancelled"}}}};
    if (verb == "session.save" && a.contains("approved")) return Json{{"state", "saved"}};
    if (verb == "session.save")
      return Json{{"state", "preview"}, {"token", "tok"}, {"file", "/r/x.comp"}, {"diff", "-a\n+b\n"}};
    return Json::object();
  }
  int count(const std::string& verb) {
    std::lock_guard lock(mutex);
    return static_cast<int>(
        std::count_if(calls.begin(), calls.end(), [&](const auto& c) { return c.first == verb; }));
  }
  std::mutex mutex;
};

class ServerTest : public testing::Test {
 protected:
  Json ask(const std::string& method, Json params, Json id = 1) {
    return connection_.answer({std::move(id), method, std::move(params)}, send_, [] { return false; });
  }
  void begin(bool elicits = false) {
    ask("initialize", {{"protocolVersion", "2025-11-25"},
                       {"capabilities", elicits ? Json{{"elicitation", Json::object()}} : Json::object()}});
  }
  static Json modern(Json params, bool elicits = true) {
    params["_meta"] = {{"io.modelcontextprotocol/protocolVersion", "2026-07-28"},
                       {"io.modelcontextprotocol/clientCapabilities",
                        elicits ? Json{{"elicitation", Json::object()}} : Json::object()}};
    return params;
  }
  static Json save() {
    return {{"name", "tuning_action"},
            {"arguments", {{"session", "s"}, {"action", "save"}, {"variant", "v"}}}};
  }
  static Json run() {
    return {{"name", "tuning_action"},
            {"arguments", {{"session", "s"}, {"action", "run"}, {"wait_seconds", 30}}}};
  }

  Stub stub_;
  Server server_{{.roots = {"/r"}, .programs = {{"p", {{"/bin/true"}, "/r"}}}},
                 [this](const std::string& v, const Json& a, const hub::OnProgress& p,
                        const std::function<bool()>& c) { return stub_(v, a, p, c); },
                 "1"};
  std::vector<Json> sent_;
  Send send_ = [this](const Json& m) { return sent_.push_back(m), true; };
  Connection connection_{server_};
};

TEST_F(ServerTest, the_handshake_comes_first_and_answers_in_a_version_that_both_speak) {
  EXPECT_EQ(ask("tools/list", Json::object())["error"]["code"], kInvalidRequest);
  EXPECT_EQ(ask("initialize", {{"protocolVersion", "2025-03-26"}})["result"]["protocolVersion"],
            "2025-03-26");
  EXPECT_EQ(ask("initialize", {{"protocolVersion", "1999-01-01"}})["result"]["protocolVersion"],
            "2025-11-25");
  EXPECT_FALSE(ask("tools/list", Json::object())["result"]["tools"].empty());
  EXPECT_EQ(ask("nope", Json::object())["error"]["code"], kMethodNotFound);
}

TEST_F(ServerTest, a_request_of_2026_says_itself_who_asks) {
  const Json found = ask("server/discover", modern(Json::object()))["result"];
  EXPECT_EQ(found["resultType"], "complete");
  EXPECT_EQ(found["supportedVersions"][0], "2026-07-28");
  EXPECT_TRUE(found.contains("ttlMs") && found.contains("cacheScope"));
  Json other = modern(Json::object());
  other["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2031-01-01";
  const Json refused = ask("tools/list", other)["error"];
  EXPECT_EQ(refused["code"], kUnsupportedVersion);
  EXPECT_EQ(refused["data"]["requested"], "2031-01-01");
  other = modern(Json::object());
  other["_meta"].erase("io.modelcontextprotocol/clientCapabilities");
  EXPECT_EQ(ask("tools/list", other)["error"]["code"], kInvalidParams);
}

TEST_F(ServerTest, a_client_that_cannot_ask_gets_a_preview_and_nothing_is_written) {
  begin(false);
  const Json r = ask("tools/call", save())["result"];
  EXPECT_EQ(r["structuredContent"]["state"], "preview");
  EXPECT_EQ(stub_.count("session.save"), 1);
}

TEST_F(ServerTest, in_2026_a_save_is_asked_and_done_when_the_call_comes_again_with_yes) {
  const Json first = ask("tools/call", modern(save()))["result"];
  EXPECT_EQ(first["resultType"], "input_required");
  EXPECT_THAT(first["inputRequests"]["save"]["params"]["message"].get<std::string>(), HasSubstr("+b"));
  Json again = modern(save());
  again["requestState"] = first["requestState"];
  again["inputResponses"] = {{"save", {{"action", "accept"}, {"content", {{"save", true}}}}}};
  EXPECT_EQ(ask("tools/call", again)["result"]["structuredContent"]["state"], "saved");
  EXPECT_EQ(stub_.calls.back().second["token"], "tok");
  // Once: the same answer does not write twice, and an invented state nothing at all.
  EXPECT_EQ(ask("tools/call", again)["error"]["code"], kInvalidParams);
  again["requestState"] = std::string(32, 'a');
  EXPECT_EQ(ask("tools/call", again)["error"]["code"], kInvalidParams);
}

TEST_F(ServerTest, no_and_silence_and_an_unticked_box_save_nothing) {
  for (const Json& said : {Json{{"action", "decline"}}, Json{{"action", "cancel"}}, Json::object(), Json(7),
                           Json{{"action", "accept"}, {"content", {{"save", false}}}}}) {
    Json again = modern(save());
    again["requestState"] = ask("tools/call", modern(save()))["result"]["requestState"];
    again["inputResponses"] = {{"save", said}};
    EXPECT_EQ(ask("tools/call", again)["result"]["structuredContent"]["state"], "declined") << said;
  }
  for (const auto& [verb, a] : stub_.calls) EXPECT_FALSE(a.contains("approved"));
}

TEST_F(ServerTest, cancelling_stops_the_job_and_nothing_is_sent) {
  begin();
  stub_.job_runs = true;
  std::thread canceller([&] {
    while (stub_.count("job.wait") < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    connection_.notice({"notifications/cancelled", {{"requestId", "r1"}}});
  });
  const Json answer = ask("tools/call", run(), "r1");
  canceller.join();
  EXPECT_TRUE(answer.is_null());
  EXPECT_EQ(stub_.count("job.cancel"), 1);
}

TEST_F(ServerTest, a_client_that_leaves_does_not_stop_the_job) {
  begin();
  stub_.job_runs = true;
  std::thread leaver([&] {
    while (stub_.count("job.wait") < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    connection_.close();
  });
  EXPECT_TRUE(ask("tools/call", run()).is_null());
  leaver.join();
  EXPECT_EQ(stub_.count("job.cancel"), 0);
}

TEST_F(ServerTest, progress_only_rises_and_comes_only_when_it_was_asked_for) {
  begin();
  stub_.job_runs = true;
  Json call = run();
  call["arguments"]["wait_seconds"] = 1.7;
  EXPECT_EQ(ask("tools/call", call)["result"]["structuredContent"]["state"], "running");
  EXPECT_TRUE(sent_.empty());
  call["_meta"] = {{"progressToken", "t"}};
  ask("tools/call", call);
  ASSERT_GE(sent_.size(), 2u);
  for (std::size_t i = 0; i < sent_.size(); ++i) EXPECT_EQ(sent_[i]["params"]["progress"], i + 1);
}

TEST_F(ServerTest, programs_are_named_and_never_given) {
  begin();
  const auto open = [&](Json arguments) {
    return ask("tools/call", {{"name", "tuning_open"}, {"arguments", std::move(arguments)}})["result"];
  };
  EXPECT_FALSE(open({{"program", "p"}})["isError"].get<bool>());
  EXPECT_EQ(stub_.calls.back().second["program"], Json::array({"/bin/true"}));
  for (const Json& bad : {Json{{"program", "/bin/sh"}}, Json{{"command", "x"}}, Json{{"roots", {"/"}}},
                          Json{{"bundle", "/etc"}}})
    EXPECT_TRUE(open(bad)["isError"].get<bool>()) << bad;
}

TEST(Token, is_equal_only_to_itself) {
  EXPECT_TRUE(same_token("abc", "abc"));
  for (const char* wrong : {"", "ab", "abcd", "abd", "ABC"}) EXPECT_FALSE(same_token(wrong, "abc")) << wrong;
  EXPECT_FALSE(same_token("", ""));
}

TEST(CutTexts, say_by_how_much_and_keep_utf8_whole) {
  EXPECT_EQ(cut_texts("short", 10), "short");
  EXPECT_THAT(cut_texts(std::string(20, 'x'), 10).get<std::string>(), HasSubstr("[10 bytes more]"));
  EXPECT_NO_THROW(cut_texts(Json("ääääää"), 3).dump());
}

}  // namespace
}  // namespace klab::mcp
