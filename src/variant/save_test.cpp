// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/hash.h"
#include "base/test_util.h"
#include "variant/variant.h"

namespace klab::variant {
namespace {

class Save : public testing::Test {
 protected:
  TestFolder folder_;
  ScopedVariable home_{"KLAB_HOME", folder_ / "home"};

  std::string text(const fs::path& path) { return read_file(path).value_or("(unreadable)"); }
  Result<Saved> saved(const std::string& file, const std::string& now) {
    KLAB_TRY(const SavePlan plan, plan_save(file, now, ""));
    return save(plan);
  }
  std::size_t files_in(const fs::path& path) {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(path), fs::directory_iterator()));
  }
};

TEST_F(Save, replaces_the_file_keeps_its_mode_and_backs_it_up) {
  const std::string file = folder_.add("src/k.comp", "old\n", 0640);
  const auto plan = plan_save(file, "new\n", "");
  ASSERT_TRUE(plan);
  EXPECT_THAT(plan->diff, testing::HasSubstr("-old\n+new\n"));
  EXPECT_EQ(text(file), "old\n") << "a plan writes nothing";
  const auto s = save(*plan);
  ASSERT_TRUE(s) << s.error().what;
  EXPECT_EQ(text(file), "new\n");
  struct stat st {};
  ::stat(file.c_str(), &st);
  EXPECT_EQ(st.st_mode & 07777, 0640u);
  EXPECT_EQ(text(s->backup), "old\n");
  EXPECT_EQ(files_in(folder_ / "src"), 1u);
  EXPECT_EQ(list_saves()->at(0).id, s->id);
}

TEST_F(Save, undo_restores_and_is_itself_a_save) {
  const std::string file = folder_.add("k.comp", "old\n");
  const auto s = saved(file, "new\n");
  const auto u = undo(s->id);
  ASSERT_TRUE(u) << u.error().what;
  EXPECT_EQ(text(file), "old\n");
  const auto all = list_saves().value();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].undo_of, s->id);
  EXPECT_FALSE(all[0].undone);
  EXPECT_TRUE(all[1].undone);
  EXPECT_EQ(undo("nosuchid").error().code, ErrorCode::not_found);
  EXPECT_EQ(undo("../../etc").error().code, ErrorCode::not_found);
}

TEST_F(Save, undo_does_not_throw_away_a_later_edit) {
  const std::string file = folder_.add("k.comp", "old\n");
  const auto s = saved(file, "new\n");
  folder_.add("k.comp", "edited by hand\n");
  EXPECT_EQ(undo(s->id).error().code, ErrorCode::source_changed);
  EXPECT_EQ(text(file), "edited by hand\n");
  const auto forced = undo(s->id, true);
  ASSERT_TRUE(forced);
  EXPECT_EQ(text(file), "old\n");
  EXPECT_EQ(text(forced->backup), "edited by hand\n");
  fs::remove(file);
  EXPECT_EQ(undo(s->id).error().code, ErrorCode::source_changed);
  ASSERT_TRUE(undo(s->id, true));
  EXPECT_EQ(text(file), "old\n");
}

TEST_F(Save, a_damaged_backup_is_not_restored) {
  const std::string file = folder_.add("k.comp", "old\n");
  const auto s = saved(file, "new\n");
  ASSERT_TRUE(write_file_atomic(s->backup, "ol"));
  EXPECT_EQ(undo(s->id).error().code, ErrorCode::invalid_data);
  EXPECT_EQ(text(file), "new\n");
}

TEST_F(Save, line_endings_and_byte_order_mark_of_the_file_are_kept) {
  const auto after = [&](const std::string& before, const std::string& now) {
    return plan_save(folder_.add("k.comp", before), now, "")->after;
  };
  EXPECT_EQ(after("a\r\nb\r\n", "x\ny\n"), "x\r\ny\r\n");
  EXPECT_EQ(after("a\r\nb\r\n", "x\r\ny"), "x\r\ny");
  EXPECT_EQ(after("a\nb\n", "x\r\ny\r\n"), "x\ny\n");
  EXPECT_EQ(after("a\r\nb\nc\n", "a\r\nB\nc\n"), "a\r\nB\nc\n");
  EXPECT_EQ(after("\xef\xbb\xbfold\n", "x\n"), "\xef\xbb\xbfx\n");
  EXPECT_EQ(after("a\n", "\xef\xbb\xbfx"), "x");
  EXPECT_EQ(after("no newline", "x\n"), "x\n");
}

TEST_F(Save, a_file_that_changed_is_left_alone) {
  const std::string file = folder_.add("k.comp", "old\n");
  const auto plan = plan_save(file, "new\n", "");
  folder_.add("k.comp", "edited\n");
  EXPECT_EQ(save(*plan).error().code, ErrorCode::source_changed);
  EXPECT_EQ(text(file), "edited\n");
  EXPECT_EQ(plan_save(file, "new\n", plan->before_hash).error().code, ErrorCode::source_changed);
  EXPECT_TRUE(list_saves()->empty());
}

TEST_F(Save, a_link_is_followed_and_stays_a_link) {
  const std::string file = folder_.add("real/k.comp", "old\n");
  fs::create_symlink(file, folder_ / "link.comp");
  ASSERT_TRUE(saved(folder_ / "link.comp", "new\n"));
  EXPECT_TRUE(fs::is_symlink(folder_ / "link.comp"));
  EXPECT_EQ(text(file), "new\n");
}

TEST_F(Save, refuses_what_it_cannot_replace_and_says_why) {
  EXPECT_EQ(plan_save(folder_ / "absent", "x", "").error().code, ErrorCode::not_found);
  EXPECT_EQ(plan_save(folder_.path(), "x", "").error().code, ErrorCode::unsupported);
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  // Not opened: that would wait for a writer.
  EXPECT_EQ(plan_save(folder_ / "pipe", "x", "").error().code, ErrorCode::unsupported);
  const auto read_only = plan_save(folder_.add("ro.comp", "old\n", 0444), "x", "");
  EXPECT_EQ(read_only.error().code, ErrorCode::unsupported);
  EXPECT_THAT(read_only.error().what, testing::HasSubstr("read-only"));
  const std::string odd = folder_.add("caf\xe9.comp", "old\n");
  EXPECT_EQ(saved(odd, "new\n").error().code, ErrorCode::unsupported);
  EXPECT_EQ(text(odd), "old\n");
  const std::string linked = folder_.add("one.comp", "old\n");
  fs::create_hard_link(linked, folder_ / "two.comp");
  EXPECT_THAT(plan_save(linked, "x", "").error().what, testing::HasSubstr("hard links"));
}

TEST_F(Save, a_disk_that_takes_no_more_leaves_the_file_and_no_traces) {
  const std::string file = folder_.add("src/k.comp", "old\n");
  const auto plan = plan_save(file, std::string(1 << 20, 'x'), "");
  ASSERT_TRUE(list_saves());
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    rlimit small{100000, 100000};
    ::setrlimit(RLIMIT_FSIZE, &small);
    ::_exit(save(*plan) ? 1 : 0);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(text(file), "old\n");
  EXPECT_EQ(files_in(folder_ / "src"), 1u);
  EXPECT_TRUE(list_saves()->empty());
}

TEST_F(Save, two_savers_take_turns) {
  const std::string file = folder_.add("k.comp", "old\n");
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    children.push_back(::fork());
    if (children.back() == 0) {
      int done = 0;
      for (int n = 0; n < 10; ++n)
        if (saved(file, "text " + std::to_string(i * 100 + n) + "\n")) ++done;
      ::_exit(done);
    }
  }
  std::size_t done = 0;
  for (pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    done += static_cast<std::size_t>(WEXITSTATUS(status));
  }
  // Each save that was reported has its record, and the records are one chain of texts from "old".
  const auto all = list_saves().value();
  EXPECT_EQ(all.size(), done);
  EXPECT_GE(done, 4u);
  std::map<std::string, std::string> next;
  for (const Saved& s : all) next[s.before_hash] = s.after_hash;
  std::string at = to_string(hash_text("old\n"));
  for (std::size_t i = 0; i < all.size(); ++i) at = next[at];
  EXPECT_EQ(at, to_string(hash_text(text(file))));
}

TEST_F(Save, killed_at_any_moment_leaves_a_whole_file_and_whole_backups) {
  const std::string a(40000, 'a'), b(50000, 'b');
  const std::string file = folder_.add("src/k.comp", a, 0640);
  std::mt19937 random(3);
  int interrupted = 0;
  for (int round = 0; round < 120; ++round) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      for (int n = 0; n < 1000; ++n)
        if (!saved(file, read_file(file).value() == a ? b : a)) ::_exit(1);
      ::_exit(0);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 40000));
    ::kill(pid, SIGKILL);
    int status = 0;
    ::waitpid(pid, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child saved all it had, or failed: " << WEXITSTATUS(status);
    const std::string now = text(file);
    ASSERT_TRUE(now == a || now == b) << now.size();
    const fs::path backups = folder_.path() / "home/backups";
    std::error_code ec;
    for (const auto& e : fs::directory_iterator(backups, ec))
      if (e.path().extension() == ".pending" || e.path().extension() == ".partial") ++interrupted;
    const auto all = list_saves();
    ASSERT_TRUE(all);
    for (const auto& e : fs::directory_iterator(backups, ec))
      ASSERT_TRUE(e.path().extension().empty() || e.path().filename() == ".lock") << e.path();
    if (!all->empty()) {
      ASSERT_EQ(to_string(hash_text(text(all->front().backup))), all->front().before_hash);
      ASSERT_EQ(all->front().after_hash, to_string(hash_text(now)));
      ASSERT_TRUE(undo(all->front().id));
      ASSERT_NE(text(file), now);
    }
    ASSERT_EQ(files_in(folder_ / "src"), 1u) << "a temporary file was left";
    struct stat st {};
    ::stat(file.c_str(), &st);
    ASSERT_EQ(st.st_mode & 07777, 0640u);
    if (round % 20 == 0) fs::remove_all(backups, ec);
  }
  EXPECT_GT(interrupted, 20) << "too few kills hit a save";
}

}  // namespace
}  // namespace klab::variant
