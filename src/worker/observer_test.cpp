// SPDX-License-Identifier: Apache-2.0
#include "worker/observer.h"

#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>
#include <vector>

extern char** environ;

namespace klab::worker {
namespace {

// Two processors and a block of 100 ms.
ProcessorUse after(double own_ms, double waited_ms, double idle_ms, double stolen_ms = 0) {
  return {.at_ns = 100e6,
          .processors = 2,
          .own_ns = own_ms * 1e6,
          .waited_ns = waited_ms * 1e6,
          .all = ProcessorTimes{.idle_ns = idle_ms * 1e6, .stolen_ns = stolen_ms * 1e6, .tick_ns = 10e6}};
}
const ProcessorUse kStart{.processors = 2, .all = ProcessorTimes{.tick_ns = 10e6}};

TEST(TakenNs, is_what_was_waited_for_and_others_had) {
  EXPECT_EQ(taken_ns(kStart, after(160, 0, 40)), 0);
  EXPECT_EQ(taken_ns(kStart, after(190, 30, 10)), 0) << "our threads waited for each other";
  EXPECT_EQ(taken_ns(kStart, after(100, 0, 0)), 0) << "others ran where nothing of ours wanted to";
  EXPECT_EQ(taken_ns(kStart, after(100, 80, 0)), 80e6);
  EXPECT_EQ(taken_ns(kStart, after(150, 80, 0)), 50e6) << "and the rest for each other";
  EXPECT_EQ(taken_ns(kStart, after(160, 0, 0, 10)), 0) << "a tick of theft says little";
  EXPECT_EQ(taken_ns(kStart, after(160, 0, 0, 40)), 30e6);
}

TEST(TakenNs, is_all_that_was_waited_where_others_are_not_told) {
  ProcessorUse then = after(190, 30, 10);
  then.all.reset();
  EXPECT_EQ(taken_ns(kStart, then), 30e6);
}

// What the processors have to spare decides how much it is, not whether.
class Taken : public testing::Test {
 protected:
  double share_with(unsigned own_threads) {
    std::vector<std::thread> threads;
    std::atomic<bool> stop{false};
    for (unsigned i = 0; i < own_threads; ++i)
      threads.emplace_back([&] {
        while (!stop) {
        }
      });
    const ProcessorUse from = processor_use();
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    const ProcessorUse to = processor_use();
    waited_ns = to.waited_ns - from.waited_ns;
    stop = true;
    for (auto& t : threads) t.join();
    return taken_ns(from, to) / ((to.at_ns - from.at_ns) * processors);
  }
  const unsigned processors = std::max(1u, std::thread::hardware_concurrency());
  double waited_ns = 0;
};

TEST_F(Taken, programs_that_run_while_our_threads_wait_are_seen) {
  (void)share_with(3 * processors);
  EXPECT_GT(waited_ns, 100e6) << "there are more than there are processors";
  std::vector<pid_t> others;
  for (unsigned i = 0; i < processors; ++i) {
    pid_t pid = 0;
    const char* args[] = {"sh", "-c", "while :; do :; done", nullptr};
    ASSERT_EQ(posix_spawn(&pid, "/bin/sh", nullptr, nullptr, const_cast<char**>(args), environ), 0);
    others.push_back(pid);
  }
  const double with_others = share_with(processors);
  for (const pid_t pid : others) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  EXPECT_GT(with_others, 0.15);
}

}  // namespace
}  // namespace klab::worker
