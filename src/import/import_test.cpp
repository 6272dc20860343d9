// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <unistd.h>

#include <ctime>
#include <fstream>

#include "base/ids.h"
#include "import/dispatch_list.h"

namespace klab::import {
namespace {

// In memory where that is possible: tests write thousands of files with fsync, and the disk may be busy.
fs::path memory_folder() {
  return ::access("/dev/shm", W_OK) == 0 ? fs::path("/dev/shm") : fs::temp_directory_path();
}

struct TempFolder {
  fs::path path = memory_folder() / ("klab-import-" + new_id());
  TempFolder() { fs::create_directories(path); }
  ~TempFolder() {
    std::error_code ec;
    fs::remove_all(path, ec);
  }
};

DispatchList sample() {
  DispatchList list;
  list.source = "traced run of ./saxpy";
  list.device.api = "vulkan";
  list.device.name = "llvmpipe";
  list.program.argv = {"./saxpy", "caf\xc3\xa9"};
  list.exit_code = 3;
  list.kernels = {{"saxpy", "main", "0123456789abcdef", std::string(32, 'a'), {64, 1, 1}, ""},
                  {"reduce", "main", "fedcba9876543210", std::string(32, 'b'), {0, 0, 0}, "uses an image"},
                  {"never_run", "main", "1", "2", {1, 1, 1}, ""}};
  list.rows = {{0, 1, 1, {16, 1, 1}, "vkCmdDispatch", 0, 1000, 10.5},
               {1, 2, 1, {1, 2, 3}, "vkCmdDispatchIndirect", 1, 2000.25, 100},
               {0, 3, 2, {16, 1, 1}, "vkCmdDispatch", 0, 3000, 30},
               {0, 4, 3, {16, 1, 1}, "vkCmdDispatch", 0, 4000, 0}};
  list.warnings = {"a timestamp was lost"};
  return list;
}

void write_text(const fs::path& file, std::string_view text) {
  std::ofstream(file, std::ios::binary) << text;
}

TEST(DispatchList, reads_back_what_was_written) {
  TempFolder t;
  const DispatchList a = sample();
  ASSERT_TRUE(write_list(t.path / "l.jsonl", a));
  const auto b = read_list(t.path / "l.jsonl");
  ASSERT_TRUE(b) << b.error().what;
  EXPECT_EQ(b->source, a.source);
  EXPECT_EQ(Json(b->device), Json(a.device));
  EXPECT_EQ(b->program.argv, a.program.argv);
  EXPECT_EQ(b->exit_code, 3);
  EXPECT_EQ(b->warnings, a.warnings);
  ASSERT_EQ(b->kernels.size(), 3u);
  EXPECT_EQ(b->kernels[1].refusal, "uses an image");
  EXPECT_EQ(b->kernels[0].block, (bundle::Dim3{64, 1, 1}));
  ASSERT_EQ(b->rows.size(), 4u);
  EXPECT_EQ(b->rows[1].grid, (bundle::Dim3{1, 2, 3}));
  EXPECT_EQ(b->rows[1].call, "vkCmdDispatchIndirect");
  EXPECT_EQ(b->rows[1].queue, 1u);
  EXPECT_EQ(b->rows[1].begin_ns, 2000.25);
  EXPECT_EQ(b->rows[2].nth, 2u);
  // Reading and writing again changes nothing.
  ASSERT_TRUE(write_list(t.path / "m.jsonl", *b));
  EXPECT_EQ(read_file(t.path / "l.jsonl").value(), read_file(t.path / "m.jsonl").value());
}

TEST(DispatchList, one_line_each) {
  TempFolder t;
  ASSERT_TRUE(write_list(t.path / "l.jsonl", sample()));
  const std::string text = read_file(t.path / "l.jsonl").value();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1 + 3 + 4);
}

TEST(DispatchList, is_cut_nowhere_unnoticed) {
  TempFolder t;
  ASSERT_TRUE(write_list(t.path / "l.jsonl", sample()));
  const std::string text = read_file(t.path / "l.jsonl").value();
  for (std::size_t n = 0; n < text.size(); ++n) {
    write_text(t.path / "cut.jsonl", text.substr(0, n));
    const auto read = read_list(t.path / "cut.jsonl");
    ASSERT_FALSE(read) << "cut to " << n;
    ASSERT_EQ(read.error().code, ErrorCode::invalid_data) << "cut to " << n;
  }
}

TEST(DispatchList, a_malformed_line_is_named) {
  TempFolder t;
  ASSERT_TRUE(write_list(t.path / "l.jsonl", sample()));
  const std::string text = read_file(t.path / "l.jsonl").value();
  auto with = [&](std::string_view from, std::string_view to) {
    std::string changed = text;
    const std::size_t at = changed.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    changed.replace(at, from.size(), to);
    write_text(t.path / "bad.jsonl", changed);
    const auto read = read_list(t.path / "bad.jsonl");
    EXPECT_FALSE(read) << from << " -> " << to;
    return read ? "" : read.error().what;
  };
  EXPECT_NE(with("[1,2,1,[1,2,3]", "[7,2,1,[1,2,3]").find(":6: kernel 7 of 3"), std::string::npos);
  EXPECT_NE(with("[1,2,1,[1,2,3]", "[-1,2,1,[1,2,3]").find(":6:"), std::string::npos);
  EXPECT_NE(with("[1,2,1,[1,2,3]", "[1,2,1,[1,2]").find(":6:"), std::string::npos);
  EXPECT_NE(with("[1,2,1,[1,2,3]", "[1,2,[1,2,3]").find(":6:"), std::string::npos);
  EXPECT_NE(with("[1,2,1,[1,2,3]", "{1,2,1,[1,2,3]").find(":6:"), std::string::npos);
  EXPECT_NE(with(",2000.25,100.0]", ",2000.25,\"x\"]").find(":6:"), std::string::npos);
  EXPECT_NE(with(",2000.25,100.0]", ",-2000.25,100.0]").find(":6:"), std::string::npos);
  EXPECT_NE(with("\"kernel\":\"saxpy\"", "\"colonel\":\"saxpy\"").find(":2:"), std::string::npos);
  EXPECT_NE(with("\"rows\":4", "\"rows\":3").find(":8:"), std::string::npos);
  EXPECT_NE(with("\"rows\":4", "\"rows\":5"), "");
  EXPECT_NE(with("\"rows\":4", "\"rows\":1152921504606846976").find(":1:"), std::string::npos);
  EXPECT_NE(with("\"kernels\":3", "\"kernels\":-3").find(":1:"), std::string::npos);
  EXPECT_NE(with("\"klab_dispatch_list\":1", "\"klab_dispatch_list\":2").find("version 2"),
            std::string::npos);
  EXPECT_NE(with("\"klab_dispatch_list\"", "\"other\"").find(":1:"), std::string::npos);
}

TEST(DispatchList, what_is_not_one_is_an_error) {
  TempFolder t;
  EXPECT_EQ(read_list(t.path / "none").error().code, ErrorCode::not_found);
  EXPECT_EQ(read_list(t.path).error().code, ErrorCode::invalid_data);
  for (const std::string& text :
       {std::string(), std::string("\n"), std::string("[]\n"), std::string("{}\n"),
        std::string(100000, '[') + "\n", std::string(40u << 20, ' '), std::string(300, '\0')}) {
    write_text(t.path / "f", text);
    EXPECT_EQ(read_list(t.path / "f").error().code, ErrorCode::invalid_data) << text.size();
  }
}

TEST(DispatchList, two_hundred_thousand_rows_are_quick) {
  TempFolder t;
  DispatchList list = sample();
  list.rows.clear();
  for (std::uint64_t i = 0; i < 200000; ++i)
    list.rows.push_back({static_cast<std::uint32_t>(i % 3),
                         i + 1,
                         i / 3 + 1,
                         {1, 2, 3},
                         "vkCmdDispatch",
                         0,
                         static_cast<double>(i) * 1000,
                         static_cast<double>(i % 77)});
  const std::clock_t begin = std::clock();
  ASSERT_TRUE(write_list(t.path / "l.jsonl", list));
  const auto read = read_list(t.path / "l.jsonl");
  ASSERT_TRUE(read) << read.error().what;
  EXPECT_EQ(read->rows.size(), 200000u);
  EXPECT_EQ(read->rows.back().sequence, 200000u);
  EXPECT_EQ(summarise(*read).size(), 3u);
  // Processor time, so that a busy machine does not fail it: 0.6 s without sanitizers, which multiply it.
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 20);
}

TEST(Summary, adds_up_by_kernel_largest_first) {
  const auto s = summarise(sample());
  ASSERT_EQ(s.size(), 2u) << "a kernel that never ran has no line";
  EXPECT_EQ(s[0].kernel, 1u);
  EXPECT_EQ(s[0].total_ns, 100);
  EXPECT_DOUBLE_EQ(s[0].share, 100 / 140.5);
  EXPECT_EQ(s[1].calls, 3u) << "a call without a time counts";
  EXPECT_EQ(s[1].total_ns, 40.5) << "but adds none";
  EXPECT_EQ(s[1].median_ns, 20.25);
  EXPECT_EQ(s[1].min_ns, 10.5);
  EXPECT_EQ(s[1].max_ns, 30);
  EXPECT_TRUE(summarise({}).empty());
}

TEST(NearestNames, offers_what_was_probably_meant) {
  const std::vector<std::string> names = {"mul_mat_vec_f16", "soft_max_f32", "rope_norm",
                                          "add_f32",         "saxpy",        "saxpy"};
  using List = std::vector<std::string>;
  EXPECT_EQ(nearest_names(names, "saxyp", 1), List{"saxpy"});
  EXPECT_EQ(nearest_names(names, "SOFTMAX", 1), List{"soft_max_f32"});
  EXPECT_EQ(nearest_names(names, "mat_vec", 1), List{"mul_mat_vec_f16"});
  EXPECT_EQ(nearest_names(names, "^add_f.2$", 1), List{"add_f32"});
  EXPECT_EQ(nearest_names(names, "saxpy", 9).size(), 5u) << "each name once";
  EXPECT_EQ(nearest_names(names, "", 2).size(), 2u);
  EXPECT_TRUE(nearest_names({}, "x").empty());
  EXPECT_EQ(nearest_names({std::string(1 << 20, 'a')}, std::string(1 << 20, 'b')).size(), 1u);
}

}  // namespace
}  // namespace klab::import
