// SPDX-License-Identifier: Apache-2.0
#include "session/sessions.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/ids.h"
#include "session/store.h"

namespace klab::session {
namespace {

struct SessionsTest : testing::Test {
  fs::path folder = fs::temp_directory_path() / ("klab-sessions-" + new_id());
  ~SessionsTest() override { fs::remove_all(folder); }
  Store store = std::move(Store::open(folder / "klab.sqlite").value());
  Sessions sessions = store.sessions();
  std::string opened() { return sessions.open({.name = "t", .made_by = "cli"})->id; }
};

TEST(SessionState, the_whole_life_of_a_session_is_allowed_and_nothing_else) {
  State s = State::opened;
  for (const auto& [move, to] : std::vector<std::pair<Move, State>>{{Move::select_source, State::source_selected},
                                                                    {Move::capture, State::captured},
                                                                    {Move::run, State::running},
                                                                    {Move::finish, State::idle},
                                                                    {Move::run, State::running},
                                                                    {Move::finish, State::idle},
                                                                    {Move::save, State::saved},
                                                                    {Move::run, State::running},
                                                                    {Move::finish, State::idle},
                                                                    {Move::close, State::closed}}) {
    const auto n = next(s, move);
    ASSERT_TRUE(n) << to_string(s) << " " << to_string(move);
    EXPECT_EQ(*n, to);
    s = *n;
  }
  const std::pair<State, Move> illegal[] = {{State::opened, Move::run},     {State::opened, Move::save},
                                            {State::captured, Move::save},  {State::running, Move::close},
                                            {State::running, Move::run},    {State::running, Move::capture},
                                            {State::idle, Move::finish},    {State::source_selected, Move::run}};
  for (const auto& [state, move] : illegal) {
    const auto n = next(state, move);
    ASSERT_FALSE(n) << to_string(state) << " " << to_string(move);
    EXPECT_EQ(n.error().code, ErrorCode::illegal_state);
    EXPECT_NE(n.error().what.find(to_string(move)), std::string::npos) << n.error().what;
  }
  for (const Move m : {Move::select_source, Move::capture, Move::run, Move::finish, Move::save, Move::close})
    EXPECT_FALSE(next(State::closed, m));
}

TEST_F(SessionsTest, a_refused_move_changes_nothing_and_a_made_one_is_an_event) {
  const std::string id = opened();
  EXPECT_FALSE(sessions.move(id, Move::save));
  EXPECT_EQ(sessions.get(id)->state, State::opened);
  ASSERT_TRUE(sessions.move(id, Move::capture, Json{{"bundle", "x"}}));
  const auto events = sessions.events(id, 0);
  ASSERT_TRUE(events);
  ASSERT_EQ(events->size(), 2u);
  EXPECT_EQ(events->at(1).kind, "capture");
  EXPECT_EQ(events->at(1).detail["bundle"], "x");
  EXPECT_EQ(sessions.events(id, events->at(1).id)->size(), 0u);
}

TEST_F(SessionsTest, the_run_after_the_last_is_refused_and_says_what_to_do) {
  const std::string id = sessions.open({.max_runs = 3})->id;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(sessions.count_run(id));
  const auto over = sessions.count_run(id);
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, ErrorCode::cap_reached);
  EXPECT_NE(over.error().hint.find("close"), std::string::npos);
  EXPECT_EQ(sessions.get(id)->runs, 3);
  EXPECT_EQ(sessions.count_run("s-nope").error().code, ErrorCode::not_found);
}

TEST_F(SessionsTest, a_closed_session_is_listed_only_when_asked_for) {
  const std::string a = opened(), b = opened();
  ASSERT_TRUE(sessions.move(a, Move::close));
  ASSERT_EQ(sessions.list()->size(), 1u);
  EXPECT_EQ(sessions.list()->at(0).id, b);
  EXPECT_EQ(sessions.list(true)->size(), 2u);
  EXPECT_FALSE(sessions.get(a)->closed_at.empty());
}

TEST_F(SessionsTest, jobs_of_dead_processes_are_lost_and_those_of_the_living_are_not_touched) {
  const std::string id = opened();
  ASSERT_TRUE(sessions.move(id, Move::capture));
  ASSERT_TRUE(sessions.move(id, Move::run));
  const pid_t child = ::fork();
  if (child == 0) {
    Store mine = std::move(Store::open(folder / "klab.sqlite").value());
    const auto job = mine.sessions().add_job({.session = id, .kind = "run"});
    ::_exit(job && mine.sessions().start_job(*job) ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  const auto living = sessions.add_job({.session = opened(), .kind = "capture"});
  ASSERT_TRUE(living);
  EXPECT_EQ(sessions.recover().value(), 1);
  EXPECT_EQ(sessions.jobs(id)->at(0).state, JobState::lost);
  EXPECT_EQ(sessions.get(id)->state, State::captured);
  EXPECT_EQ(sessions.job(*living)->state, JobState::queued);
  EXPECT_EQ(sessions.recover().value(), 0);
}

TEST_F(SessionsTest, two_processes_take_different_runs_and_never_more_than_there_are) {
  const std::string id = sessions.open({.max_runs = 50})->id;
  std::vector<pid_t> children;
  for (int c = 0; c < 4; ++c) {
    const pid_t child = ::fork();
    if (child == 0) {
      Store mine = std::move(Store::open(folder / "klab.sqlite").value());
      int got = 0;
      for (int i = 0; i < 20; ++i) got += mine.sessions().count_run(id) ? 1 : 0;
      ::_exit(got);
    }
    children.push_back(child);
  }
  int sum = 0;
  for (const pid_t c : children) {
    int status = 0;
    ::waitpid(c, &status, 0);
    sum += WEXITSTATUS(status);
  }
  EXPECT_EQ(sum, 50);
  EXPECT_EQ(sessions.get(id)->runs, 50);
}

}  // namespace
}  // namespace klab::session
