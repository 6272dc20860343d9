// SPDX-License-Identifier: Apache-2.0
#include "hub/core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/test_util.h"
#include "hub/wire.h"

namespace klab::hub {
namespace {

using testing::HasSubstr;

class CoreTest : public testing::Test {
 protected:
  Result<Json> call(const std::string& verb, Json arguments) {
    return core_.call(verb, arguments, {}, {}, {});
  }
  std::string open_session() {
    auto opened = call("session.open", {{"roots", {folder_.path().string()}}, {"name", "t"}});
    EXPECT_TRUE(opened) << opened.error().what;
    return opened ? opened->at("session").at("id").get<std::string>() : "";
  }
  Json wait(const Json& job) { return call("job.wait", {{"job", job}, {"wait_s", 20}}).value().at("job"); }

  TestFolder folder_;
  ScopedVariable home_{"KLAB_HOME", folder_ / "home"};
  Core core_;
};

TEST_F(CoreTest, a_job_ends_with_its_result_or_its_error) {
  auto started =
      call("job.start", {{"verb", "session.open"}, {"arguments", {{"roots", {folder_.path().string()}}}}});
  ASSERT_TRUE(started) << started.error().what;
  Json row = wait(started->at("job"));
  EXPECT_EQ(row["state"], "done");
  EXPECT_TRUE(row["result"].contains("session"));
  started = call("job.start", {{"verb", "session.status"}, {"arguments", {{"session", "nobody"}}}});
  row = wait(started->at("job"));
  EXPECT_EQ(row["state"], "failed");
  EXPECT_EQ(row["result"]["error"]["code"], "not_found");
}

TEST_F(CoreTest, what_is_no_job_is_refused) {
  EXPECT_EQ(call("job.start", {{"verb", "rm"}}).error().code, ErrorCode::usage);
  EXPECT_EQ(call("job.start", Json::object()).error().code, ErrorCode::usage);
  EXPECT_EQ(call("job.start", {{"verb", "devices"}, {"session", "nobody"}}).error().code,
            ErrorCode::not_found);
  EXPECT_EQ(call("job.wait", {{"job", 12345}}).error().code, ErrorCode::not_found);
  EXPECT_EQ(call("job.cancel", {{"job", "x"}}).error().code, ErrorCode::usage);
  EXPECT_EQ(call("no.such.verb", Json::object()).error().code, ErrorCode::usage);
}

TEST_F(CoreTest, a_waiter_wakes_when_anybody_writes_an_event) {
  const std::string id = open_session();
  const auto last = call("events.wait", {{"session", id}, {"after", 0}})->at("last").get<std::int64_t>();
  std::atomic<bool> came{false};
  std::thread waiter([&] {
    const auto seen =
        core_.call("events.wait", {{"session", id}, {"after", last}, {"wait_s", 20}}, {}, {}, {});
    came = seen && seen->at("events").size() == 1 && seen->at("events")[0].at("kind") == "said elsewhere";
  });
  {
    // Another connection to the store, as another process would have.
    auto store = session::Store::open(fs::path(folder_ / "home") / "klab.sqlite");
    ASSERT_TRUE(store);
    ASSERT_TRUE(store->sessions().add_event(id, "said elsewhere", Json::object()));
  }
  waiter.join();
  EXPECT_TRUE(came);
}

TEST_F(CoreTest, many_callers_at_once_get_their_own_answers) {
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 5; ++i) {
        const std::string name = std::to_string(t * 100 + i);
        const auto opened = call("session.open", {{"roots", {folder_.path().string()}}, {"name", name}});
        if (opened && opened->at("session").at("name") == name) ++right;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right, 40);
  EXPECT_EQ(call("session.list", Json::object())->at("sessions").size(), 40u);
}

TEST_F(CoreTest, after_stop_nothing_new_begins) {
  core_.stop();
  EXPECT_EQ(call("session.list", Json::object()).error().code, ErrorCode::interrupted);
  EXPECT_EQ(call("job.start", {{"verb", "devices"}}).error().code, ErrorCode::interrupted);
}

TEST_F(CoreTest, a_caller_is_answered_in_his_own_environment) {
  const auto other =
      std::make_shared<const Variables>(Variables{{"KLAB_HOME", folder_ / "other"}, {"PATH", "/usr/bin"}});
  EXPECT_TRUE(core_.call("session.open", {{"roots", {folder_.path().string()}}}, {"cli", other}, {}, {}));
  EXPECT_TRUE(fs::exists(folder_ / "other/klab.sqlite"));
}

TEST(Fingerprint, differs_by_what_matters_only) {
  const Variables a{{"PATH", "/usr/bin"}, {"VK_ICD_FILENAMES", "x"}, {"PWD", "/a"}};
  Variables b = a;
  b["PWD"] = "/b", b["SHLVL"] = "3";
  EXPECT_EQ(fingerprint(&a), fingerprint(&b));
  b["VK_ICD_FILENAMES"] = "y";
  EXPECT_NE(fingerprint(&a), fingerprint(&b));
  EXPECT_EQ(fingerprint(nullptr), "");
}

TEST(SocketPath, lies_in_a_folder_that_is_only_ours) {
  TestFolder folder;
  ScopedVariable home("KLAB_HOME", folder / "home"), runtime("XDG_RUNTIME_DIR", folder.path().string());
  const auto path = socket_path();
  ASSERT_TRUE(path) << path.error().what;
  fs::permissions(path->parent_path(), fs::perms::all);
  EXPECT_FALSE(socket_path());
  fs::permissions(path->parent_path(), fs::perms::owner_all);
  fs::remove_all(path->parent_path());
  fs::create_directory_symlink("/tmp", path->parent_path());
  EXPECT_FALSE(socket_path());
}

}  // namespace
}  // namespace klab::hub
