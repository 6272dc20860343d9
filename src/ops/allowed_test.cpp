// SPDX-License-Identifier: Apache-2.0
#include "ops/allowed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "base/test_util.h"
#include "ops/settings.h"

namespace klab::ops {
namespace {

using testing::HasSubstr;

class AllowedPaths : public testing::Test {
 protected:
  AllowedPaths() {
    folder_.add("root/src/a.comp", "inside");
    folder_.add("outside/secret", "secret");
    fs::create_symlink(folder_ / "outside/secret", folder_ / "root/link");
    fs::create_directory_symlink(folder_ / "outside", folder_ / "root/dir");
    fs::create_symlink("src/a.comp", folder_ / "root/harmless");
    roots_ = canonical_roots({(folder_ / "root")}).value();
  }
  TestFolder folder_;
  std::vector<std::string> roots_;
};

TEST_F(AllowedPaths, what_lies_beneath_a_root_is_opened_and_read_through_the_same_file) {
  for (const std::string& path : {std::string("src/a.comp"), (folder_ / "root/src/a.comp")}) {
    auto file = open_allowed(roots_, path, PathKind::file);
    ASSERT_TRUE(file) << file.error().what;
    // Whatever happens to the name, what was checked is what is read.
    fs::rename(folder_ / "root/src/a.comp", folder_ / "root/src/b.comp");
    EXPECT_EQ(read_allowed(*file).value(), "inside");
    fs::rename(folder_ / "root/src/b.comp", folder_ / "root/src/a.comp");
  }
  EXPECT_TRUE(open_allowed(roots_, "src", PathKind::folder));
}

TEST_F(AllowedPaths, everything_else_is_refused) {
  ::mkfifo((folder_ / "root/fifo").c_str(), 0600);
  for (const std::string& path :
       {std::string("link"), std::string("dir/secret"), std::string("../outside/secret"), std::string("src/../../outside/secret"),
        (folder_ / "outside/secret"), std::string("/etc/passwd"), std::string("src/a.comp\0x", 12), std::string("harmless"),
        std::string("fifo"), std::string("src"), std::string("none"), std::string(5000, 'x')}) {
    const auto file = open_allowed(roots_, path, PathKind::file);
    EXPECT_FALSE(file) << path;
  }
  EXPECT_FALSE(open_allowed(roots_, "dir", PathKind::folder));
  EXPECT_FALSE(open_allowed({}, (folder_ / "root/src/a.comp"), PathKind::file));
}

TEST_F(AllowedPaths, a_root_that_is_only_a_prefix_of_a_name_allows_nothing) {
  folder_.add("root-of-others/x", "x");
  EXPECT_FALSE(open_allowed(roots_, (folder_ / "root-of-others/x"), PathKind::file));
  EXPECT_FALSE(beneath(roots_, folder_ / "root-of-others/x"));
}

TEST_F(AllowedPaths, both_ways_to_open_agree) {
  const Fd root(::open(roots_[0].c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  for (const char* rest : {"src/a.comp", "link", "dir/secret", "../outside/secret", "harmless", "none"}) {
    bool supported = true;
    const bool by_component = detail::open_by_component(root.get(), rest, rest).has_value();
    const bool by_openat2 = detail::open_by_openat2(root.get(), rest, rest, supported).has_value();
    if (supported) EXPECT_EQ(by_component, by_openat2) << rest;
    EXPECT_EQ(by_component, std::string_view(rest) == "src/a.comp") << rest;
  }
}

TEST_F(AllowedPaths, a_folder_that_is_swapped_for_a_link_meanwhile_never_leads_out) {
  folder_.add("root/swap/secret", "inside");
  std::atomic<bool> stop{false};
  std::thread swapper([&] {
    while (!stop) {
      std::error_code ec;
      fs::rename(folder_ / "root/swap", folder_ / "root/kept", ec);
      fs::create_directory_symlink(folder_ / "outside", folder_ / "root/swap", ec);
      fs::remove(folder_ / "root/swap", ec);
      fs::rename(folder_ / "root/kept", folder_ / "root/swap", ec);
    }
  });
  int opened = 0;
  for (int i = 0; i < 3000; ++i)
    if (const auto file = open_allowed(roots_, "swap/secret", PathKind::file)) {
      ++opened;
      ASSERT_EQ(read_allowed(*file).value(), "inside");
    }
  stop = true;
  swapper.join();
  EXPECT_GT(opened, 0);
}

TEST(Settings, are_read_with_paths_below_the_file) {
  const auto s = parse_settings("max_runs = 5\nworker_budget_s = 30\njob_log_bytes = \"1MiB\"\nroots = [\"src\"]\n[programs.m]\ncommand = [\"./m\", \"1\"]\n"
                                "environment = { A = \"b\" }\n",
                                "/p/klab.toml");
  ASSERT_TRUE(s) << s.error().what;
  EXPECT_EQ(s->max_runs, 5);
  EXPECT_EQ(s->worker_budget_s, 30);
  EXPECT_EQ(s->job_log_bytes, 1u << 20);
  EXPECT_EQ(s->roots, std::vector<std::string>{"/p/src"});
  ASSERT_TRUE(s->programs.contains("m"));
  EXPECT_EQ(s->programs.at("m").environment.at("A"), "b");
}

TEST(Settings, mistakes_are_named_with_their_line) {
  for (const auto& [text, part] : std::vector<std::pair<std::string, std::string>>{{"\n\nmax_rnus = 5", "klab.toml:3"},
                                                                                   {"max_runs = -1", "max_runs"},
                                                                                   {"max_runs = \"many\"", "max_runs"},
                                                                                   {"job_log_bytes = \"big\"", "job_log_bytes"},
                                                                                   {"[programs.m]\n", "command"},
                                                                                   {"[programs.m]\ncommand = []", "command"},
                                                                                   {"max_runs = ", "klab.toml:1"}}) {
    const auto s = parse_settings(text, "/p/klab.toml");
    ASSERT_FALSE(s) << text;
    EXPECT_THAT(s.error().what, HasSubstr(part)) << text;
    EXPECT_EQ(s.error().code, ErrorCode::invalid_data);
  }
}

}  // namespace
}  // namespace klab::ops
