// SPDX-License-Identifier: Apache-2.0
#include "ops/job_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "base/test_util.h"

namespace klab::ops {
namespace {

using testing::HasSubstr;
using testing::Not;

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST(JobLog, has_our_lines_and_what_a_program_wrote) {
  TestFolder folder;
  {
    JobLog log(folder / "logs/1.log", 1 << 20);
    log.line("begins");
    const int out = log.pipe();
    ASSERT_GE(out, 0);
    ASSERT_EQ(::write(out, "from the program\n", 17), 17);
    log.line("ends");
  }
  const std::string text = read_file(folder / "logs/1.log").value();
  for (const char* part : {"begins", "from the program", "ends"}) EXPECT_THAT(text, HasSubstr(part));
}

TEST(JobLog, at_the_cap_one_line_says_so_and_the_work_goes_on) {
  TestFolder folder;
  constexpr std::size_t kCap = 1 << 16;
  {
    JobLog log(folder / "1.log", kCap);
    const int out = log.pipe();
    ASSERT_GE(out, 0);
    const std::string line(999, 'x');
    std::thread program([&] {  // is never held up, however much it says
      for (int i = 0; i < 1000; ++i) ASSERT_EQ(::write(out, (line + "\n").data(), 1000), 1000);
    });
    program.join();
    for (int i = 0; i < 100; ++i) log.line("more of ours");
  }
  const std::string text = read_file(folder / "1.log").value();
  EXPECT_LE(text.size(), kCap + 200);
  EXPECT_GE(text.size(), kCap - 1100);
  EXPECT_EQ(count(text, "reached its cap"), 1u) << text.substr(text.size() - 300);
}

TEST(JobLog, that_cannot_be_written_is_no_reason_to_stop) {
  TestFolder folder;
  folder.add("file", "no folder");
  JobLog log(folder / "file/1.log", 1 << 16);
  log.line("lost");
}

}  // namespace
}  // namespace klab::ops
