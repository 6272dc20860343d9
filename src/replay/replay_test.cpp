// SPDX-License-Identifier: Apache-2.0
// The supervisor against stand-in workers that misbehave (the real one is tested in worker/ and tests/).
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "base/ids.h"
#include "replay/worker.h"

namespace klab::replay {
namespace {

struct ScriptedWorker {
  fs::path folder = fs::temp_directory_path() / ("klab-replay-" + new_id());
  explicit ScriptedWorker(const std::string& body) {
    EXPECT_TRUE(make_folders(folder));
    EXPECT_TRUE(write_file_atomic(folder / "worker", "#!/bin/bash\n" + body, 0700));
    ::setenv("KLAB_WORKER", (folder / "worker").c_str(), 1);
  }
  ~ScriptedWorker() {
    ::unsetenv("KLAB_WORKER");
    fs::remove_all(folder);
  }
};

TEST(Worker, a_death_becomes_a_typed_answer_and_the_next_request_starts_a_new_one) {
  ScriptedWorker script("kill -SEGV $$");
  Worker worker;
  for (int i = 0; i < 2; ++i) {
    auto answer = worker.ask({.verb = "replay"});
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->outcome, Outcome::worker_lost);
    EXPECT_NE(answer->error->what.find("SIGSEGV"), std::string::npos) << answer->error->what;
  }
}

TEST(Worker, garbage_on_the_socket_is_not_believed) {
  ScriptedWorker script("printf '\\004\\000\\000\\000null' >&3; sleep 60");
  Worker worker;
  auto answer = worker.ask({.verb = "replay"});
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->outcome, Outcome::worker_lost);
}

TEST(Worker, cancelling_ends_it_at_once) {
  ScriptedWorker script("sleep 60");
  Worker worker;
  auto answer = worker.ask({.verb = "replay"}, {}, [] { return true; });
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::interrupted);
}

TEST(Worker, its_log_is_cut_at_the_cap_with_a_line_that_says_so) {
  ScriptedWorker script("head -c 5000 /dev/zero | tr '\\0' x; exit 1");
  const fs::path log = script.folder / "log";
  {
    Worker worker({.log = log, .log_cap = 1000});
    ASSERT_TRUE(worker.ask({.verb = "replay"}));
  }
  const auto text = read_file(log);
  ASSERT_TRUE(text);
  EXPECT_LT(text->size(), 1100u);
  EXPECT_NE(text->find("log is cut"), std::string::npos);
}

TEST(Protocol, a_request_reads_back_as_it_was_written) {
  Request request{.verb = "compare", .bundle = "x.klab", .dispatch = 1, .seed = 9};
  VariantCode v{.label = "b", .code = "b.spv"};
  v.launch.grid = bundle::Dim3{1, 2, 3};
  v.launch.spec_constants[7] = Bytes{std::byte{1}, std::byte{0}, std::byte{0}, std::byte{0}};
  request.variants = {v};
  request.conditions.mode = Mode::sustained;
  const Json once = request;
  const Json twice = once.get<Request>();
  EXPECT_EQ(once, twice);
}

TEST(Protocol, an_answer_reads_back_as_it_was_written) {
  Answer answer;
  answer.error = Error{ErrorCode::device_fault, "lost", "", -4};
  answer.variants.emplace_back().samples_ns = {1.5, 2};
  answer.variants[0].validation.differences.push_back({1, "out", 4, 8, "00", "01"});
  answer.variants[0].validation.oracle["no-op"] = true;
  const Json once = answer;
  EXPECT_EQ(once, Json(once.get<Answer>()));
}

TEST(Protocol, a_frame_that_claims_too_much_is_refused) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  ASSERT_EQ(::write(ends[0], "\xff\xff\xff\xff", 4), 4);
  EXPECT_EQ(receive_message(ends[1], 1000).error().code, ErrorCode::invalid_data);
  ::close(ends[0]);
  EXPECT_EQ(receive_message(ends[1], 1000).error().code, ErrorCode::worker_lost);
  ::close(ends[1]);
}

}  // namespace
}  // namespace klab::replay
