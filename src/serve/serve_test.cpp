// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/api.h"
#include "serve/assets.h"
#include "serve/gate.h"
#include "serve/pump.h"

namespace klab::serve {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::string_view kToken = "0123456789abcdef";

Asked good() {
  return {.method = "POST",
          .target = "/api/call",
          .host = "127.0.0.1:8080",
          .origin = "http://127.0.0.1:8080",
          .fetch_site = "same-origin",
          .authorization = "Bearer 0123456789abcdef",
          .content_type = "application/json",
          .content_length = 10};
}

unsigned status(const Asked& asked) {
  const auto refused = refusal(asked, kToken);
  return refused ? refused->status : 200;
}

TEST(Gate, lets_the_page_in) {
  EXPECT_EQ(status(good()), 200u);
  for (const char* host : {"localhost:1", "[::1]:9000", "127.0.0.1"}) {
    Asked a = good();
    const std::string origin = std::string("http://") + host;
    a.host = host, a.origin = origin;
    EXPECT_EQ(status(a), 200u) << host;
  }
  Asked command_line = good();
  command_line.origin = command_line.fetch_site = "";
  EXPECT_EQ(status(command_line), 200u);
}

TEST(Gate, the_token_is_asked_of_every_call) {
  for (const char* wrong : {"", "Bearer", "Bearer ", "Bearer 0123456789abcde", "Bearer 0123456789abcdeff",
                            "bearer 0123456789abcdef", "Basic 0123456789abcdef"}) {
    Asked a = good();
    a.authorization = wrong;
    EXPECT_EQ(status(a), 401u) << wrong;
    a.method = "GET", a.target = "/api/stream?after=0";
    EXPECT_EQ(status(a), 401u) << wrong;
  }
  Asked a = good();
  EXPECT_TRUE(refusal(a, "").has_value()) << "no token is never right";
}

TEST(Gate, other_pages_and_rebound_names_are_refused) {
  for (const char* host : {"", "evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example",
                           "127.0.0.1:80@evil", "[::1", "[::1]x", "127.0.0.2", "0.0.0.0:8080"}) {
    Asked a = good();
    a.host = host, a.origin = "";
    EXPECT_EQ(status(a), 403u) << host;
    a.method = "GET", a.target = "/";
    EXPECT_EQ(status(a), 403u) << host;
  }
  for (const char* origin : {"http://evil.example", "null", "https://127.0.0.1:8080", "http://127.0.0.1:8081"}) {
    Asked a = good();
    a.origin = origin;
    EXPECT_EQ(status(a), 403u) << origin;
  }
  Asked a = good();
  a.origin = "", a.fetch_site = "cross-site";
  EXPECT_EQ(status(a), 403u);
}

TEST(Gate, size_type_and_method) {
  Asked a = good();
  a.content_length = kMostBody + 1;
  EXPECT_EQ(status(a), 413u);
  a = good(), a.content_type = "text/plain";
  EXPECT_EQ(status(a), 415u);
  a = good(), a.content_type = "application/json; charset=utf-8";
  EXPECT_EQ(status(a), 200u);
  a = good(), a.method = "PUT";
  EXPECT_EQ(status(a), 405u);
  a = good(), a.target = "/app.js";
  EXPECT_EQ(status(a), 405u);
}

struct Lab {
  std::vector<std::pair<std::string, Json>> calls;
  Api api(ops::Granted granted) {
    return {std::move(granted),
            [this](const std::string& verb, const Json& a, const std::function<bool()>&) -> Result<Json> {
              calls.emplace_back(verb, a);
              return Json{{"said", verb}};
            },
            "1"};
  }
};

ops::Granted granted() {
  return {.roots = {"/usr"}, .programs = {{"true", {.argv = {"/bin/true", "x"}, .working_folder = "/usr"}}}};
}

Json ask(const Api& api, const std::string& verb, const Json& arguments) {
  return Json::parse(api.answer(Json{{"verb", verb}, {"arguments", arguments}}.dump(), {}));
}

TEST(Api, sessions_are_opened_on_allowed_programs_only) {
  Lab lab;
  const Api api = lab.api(granted());
  EXPECT_TRUE(ask(api, "session.open", {{"program", "true"}, {"name", "n"}}).contains("result"));
  ASSERT_EQ(lab.calls.size(), 1u);
  EXPECT_EQ(lab.calls[0].second, (Json{{"roots", {"/usr"}},
                                       {"made_by", "page"},
                                       {"name", "n"},
                                       {"program", {"/bin/true", "x"}},
                                       {"working_folder", "/usr"}}));
  for (const Json& wrong : {Json{{"program", "sh"}}, Json{{"program", {"/bin/sh"}}}, Json{{"roots", {"/"}}},
                            Json{{"bundle", "/etc"}}, Json{{"bundle", "/usr/../etc"}}, Json{{"allow_save", {"/"}}}})
    EXPECT_TRUE(ask(api, "session.open", wrong).contains("error")) << wrong;
  EXPECT_TRUE(ask(api, "job.start", {{"verb", "session.open"}, {"arguments", {{"roots", {"/"}}}}}).contains("error"));
  EXPECT_EQ(lab.calls.size(), 1u) << "nothing of it reached the laboratory";
}

TEST(Api, verbs_that_write_or_read_anywhere_are_not_for_it) {
  Lab lab;
  const Api api = lab.api(granted());
  for (const char* verb : {"replay", "build", "source.write", "compare", "hub.stop", "device.hold", "", "no.such"})
    EXPECT_TRUE(ask(api, verb, Json::object()).contains("error")) << verb;
  for (const char* verb : {"replay", "hub.stop", "job.start", "events.wait"})
    EXPECT_TRUE(ask(api, "job.start", {{"verb", verb}}).contains("error")) << verb;
  EXPECT_TRUE(ask(api, "report", {{"comparison", 1}, {"html", "/tmp/x"}}).contains("error"));
  EXPECT_TRUE(ask(api, "dispatches.rows", {{"list", "/etc/passwd"}}).contains("error"));
  EXPECT_TRUE(ask(api, "dispatches.rows", {{"list", 7}}).contains("error"));
  EXPECT_TRUE(lab.calls.empty());
  EXPECT_TRUE(ask(api, "dispatches.rows", {{"list", "/usr/list.jsonl"}}).contains("result"));
}

TEST(Api, read_only_reads) {
  Lab lab;
  ops::Granted g = granted();
  g.read_only = true;
  const Api api = lab.api(g);
  for (const char* verb : {"session.run", "session.save", "session.approve", "session.close", "job.start", "job.cancel", "calibrate"})
    EXPECT_THAT(ask(api, verb, Json::object()).dump(), HasSubstr("not_allowed")) << verb;
  EXPECT_TRUE(ask(api, "session.status", {{"session", "s"}}).contains("result"));
}

TEST(Api, nonsense_is_answered) {
  Lab lab;
  const Api api = lab.api(granted());
  for (const char* text : {"", "{", "[]", "7", R"({"verb":7})", R"({"arguments":{}})", R"({"verb":"devices","x":1})",
                           R"({"verb":"devices","arguments":[]})"})
    EXPECT_TRUE(Json::parse(api.answer(text, {})).contains("error")) << text;
  EXPECT_TRUE(lab.calls.empty());
}

TEST(Api, waits_are_bounded) {
  Lab lab;
  const Api api = lab.api(granted());
  ask(api, "job.wait", {{"job", 1}, {"wait_s", 1e9}});
  EXPECT_EQ(lab.calls.at(0).second["wait_s"], 20.0);
}

TEST(Assets, the_page_is_in_the_program) {
  const Asset* index = find_asset("index.html");
  ASSERT_NE(index, nullptr);
  EXPECT_THAT(std::string(index->plain), HasSubstr("__CSP_NONCE__"));
  EXPECT_EQ(find_asset("../gate.h"), nullptr);
  EXPECT_EQ(find_asset(""), nullptr);
}

/// A hub with events 1 to `events`, whose newest number can be told to grow.
struct Hub {
  std::atomic<std::int64_t> newest{0};
  std::atomic<bool> down{false};
  Call call() {
    return [this](const std::string& verb, const Json& a, const std::function<bool()>& stopped) -> Result<Json> {
      if (down) return fail(ErrorCode::environment, "no hub");
      if (verb == "hub.status") return Json{{"jobs", Json::array()}};
      std::int64_t after = a.at("after");
      if (after < 0) after = newest;
      const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(a.value("wait_s", 0.0));
      while (newest <= after && std::chrono::steady_clock::now() < until && !(stopped && stopped()))
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      Json events = Json::array();
      for (std::int64_t id = after + 1; id <= newest && events.size() < 1000; ++id) events.push_back({{"id", id}});
      return Json{{"last", events.empty() ? after : after + static_cast<std::int64_t>(events.size())}, {"events", events}};
    };
  }
};

struct Ear {
  std::mutex mutex;
  std::vector<std::string> heard;
  Listener listener() {
    return [this](const std::string& frame) {
      const std::lock_guard lock(mutex);
      if (frame.find("event: event") != std::string::npos) heard.push_back(frame.substr(0, frame.find('\n')));
      if (frame.find("event: reset") != std::string::npos) heard.push_back("reset");
      return true;
    };
  }
  std::vector<std::string> wait(std::size_t many) {
    for (int i = 0; i < 5000; ++i) {
      {
        const std::lock_guard lock(mutex);
        if (heard.size() >= many) return heard;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const std::lock_guard lock(mutex);
    return heard;
  }
};

TEST(Pump, each_hears_what_it_has_missed_once_and_in_order) {
  Hub hub;
  hub.newest = 3;
  Ear early, late;
  Pump pump(hub.call());
  pump.listen(1, early.listener());
  hub.newest = 4;
  EXPECT_THAT(early.wait(3), ElementsAre("id: 2", "id: 3", "id: 4"));
  pump.listen(0, late.listener());
  hub.newest = 5;
  EXPECT_THAT(late.wait(5), ElementsAre("id: 1", "id: 2", "id: 3", "id: 4", "id: 5"));
  EXPECT_THAT(early.wait(4), ElementsAre("id: 2", "id: 3", "id: 4", "id: 5"));
}

TEST(Pump, a_hub_that_went_away_is_waited_for) {
  Hub hub;
  hub.newest = 1;
  Ear ear;
  Pump pump(hub.call());
  pump.listen(1, ear.listener());
  hub.down = true;
  hub.newest = 2;
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  hub.down = false;
  EXPECT_THAT(ear.wait(1), ElementsAre("id: 2"));
}

TEST(Pump, who_missed_too_much_is_told_to_begin_anew) {
  Hub hub;
  hub.newest = 20000;
  Ear ear;
  Pump pump(hub.call());
  pump.listen(0, ear.listener());
  EXPECT_EQ(ear.wait(5001).back(), "reset");
  hub.newest = 20001;
  EXPECT_EQ(ear.wait(5002).back(), "id: 20001");
}

}  // namespace
}  // namespace klab::serve
