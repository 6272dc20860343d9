// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <thread>

#include "base/files.h"
#include "base/hash.h"
#include "base/ids.h"
#include "base/json.h"
#include "base/subprocess.h"
#include "base/units.h"

namespace klab {
namespace {

TEST(Json, refuses_text_nested_deeper_than_the_limit) {
  EXPECT_FALSE(parse_json(std::string(100000, '['), "deep"));
  EXPECT_TRUE(parse_json("[[\"[[[[\"]]", "shallow"));
}

TEST(Json, refuses_a_number_that_does_not_fit_its_member) {
  std::uint32_t out = 0;
  EXPECT_THROW(read_optional(Json{{"n", 1ull << 40}}, "n", out), std::exception);
  EXPECT_THROW(read_optional(Json{{"n", -1}}, "n", out), std::exception);
  EXPECT_THROW(read_optional(Json{{"n", 1.5}}, "n", out), std::exception);
}

TEST(Json, hex_round_trips_and_refuses_other_text) {
  const auto bytes = from_hex("00ff7A");
  ASSERT_TRUE(bytes);
  EXPECT_EQ(to_hex(*bytes), "00ff7a");
  EXPECT_FALSE(from_hex("0"));
  EXPECT_FALSE(from_hex("zz"));
}

TEST(Error, every_code_has_a_name_that_reads_back) {
  for (int i = 1; i <= 28; ++i) {
    const auto code = static_cast<ErrorCode>(i);
    EXPECT_EQ(error_code_from(to_string(code)), code) << i;
  }
}

TEST(Hash, text_form_reads_back) {
  const Hash128 h = hash_text("klab");
  EXPECT_EQ(hash_from(to_string(h)), h);
  EXPECT_FALSE(hash_from("123"));
  EXPECT_FALSE(hash_from(std::string(32, 'g')));
}

TEST(Units, are_written_with_three_digits_and_read_back) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_ns(12345), "12.3 us");
  EXPECT_EQ(format_ns(999), "999 ns");
  std::uint64_t bytes = 0;
  EXPECT_TRUE(parse_bytes("1.5GiB", bytes));
  EXPECT_EQ(bytes, 3ull << 29);
  EXPECT_TRUE(parse_bytes("64K", bytes));
  EXPECT_EQ(bytes, 65536u);
  EXPECT_FALSE(parse_bytes("-1", bytes));
  EXPECT_FALSE(parse_bytes("9E9G", bytes));
  EXPECT_FALSE(parse_bytes("64 apples", bytes));
}

TEST(Files, atomic_write_replaces_whole_and_leaves_no_temporary) {
  const fs::path folder = fs::temp_directory_path() / ("klab-base-" + new_id());
  ASSERT_TRUE(make_folders(folder));
  ASSERT_TRUE(write_file_atomic(folder / "a", "one"));
  ASSERT_TRUE(write_file_atomic(folder / "a", "two"));
  EXPECT_EQ(read_file(folder / "a").value(), "two");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1);
  EXPECT_EQ(read_file(folder / "a", 2).error().code, ErrorCode::cap_reached);
  EXPECT_EQ(read_file(folder / "b").error().code, ErrorCode::not_found);
  fs::remove_all(folder);
}

TEST(Subprocess, captures_output_and_exit_code) {
  auto done = run_program({.argv = {"sh", "-c", "cat; echo err >&2; exit 3"}}, "hello");
  ASSERT_TRUE(done);
  EXPECT_EQ(done->out, "hello");
  EXPECT_EQ(done->err, "err\n");
  EXPECT_EQ(done->status.code, 3);
}

TEST(Subprocess, kills_the_whole_group_at_the_limit) {
  auto done = run_program({.argv = {"sh", "-c", "sleep 60 & sleep 60"}}, {}, std::chrono::milliseconds(200));
  ASSERT_TRUE(done);
  EXPECT_TRUE(done->timed_out);
}

TEST(Subprocess, threads_may_feed_children_that_do_not_read) {
  const std::string much(1 << 20, 'x');
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int n = 0; n < 20; ++n) EXPECT_TRUE(run_program({.argv = {"true"}}, much)->status.ok());
    });
  for (std::thread& t : threads) t.join();
}

TEST(Subprocess, names_a_program_that_is_not_there) {
  auto done = run_program({.argv = {"no-such-program-here"}});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::not_found);
}

TEST(Subprocess, passes_extra_descriptors_and_environment) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  auto done = run_program({.argv = {"sh", "-c", "echo $KLAB_X >&5"},
                           .environment = {{"KLAB_X", "y"}},
                           .extra_fds = {{5, ends[1]}}});
  ASSERT_TRUE(done && done->status.ok());
  char text[3] = {};
  EXPECT_EQ(::read(ends[0], text, 2), 2);
  EXPECT_STREQ(text, "y\n");
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace klab
