// SPDX-License-Identifier: Apache-2.0
// Writers that are killed, and disks that fill up: the final path is absent, or the old bundle, or the new
// one.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>
#include <thread>

#include "bundle/pack.h"
#include "bundle/reader.h"
#include "bundle/test_bundle.h"

namespace klab::bundle {
namespace {

using testing::noise;
using testing::TempFolder;
using testing::write_sample;

std::string entries(const fs::path& folder) {
  std::string names;
  for (const auto& entry : fs::directory_iterator(folder)) names += entry.path().filename().string() + " ";
  return names;
}

// Forks `work`, kills it after `delay` and waits.
void run_and_kill(const std::function<void()>& work, std::chrono::microseconds delay) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    work();
    ::_exit(0);
  }
  std::this_thread::sleep_for(delay);
  ::kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
}

// How long `work` takes here, so that kills fall all over it.
std::uint64_t microseconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return 1 + static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(
                                            std::chrono::steady_clock::now() - begin)
                                            .count());
}

TEST(Kill, a_killed_writer_leaves_no_bundle_or_a_whole_one) {
  TempFolder t;
  std::mt19937 random(7);
  int whole = 0, partial = 0;
  const std::uint64_t usual = microseconds_of([&] { (void)write_sample(t.path / "first.klab"); });
  // On a busy machine the first write can be the slowest by far: shorter delays too, and more of them until one hits.
  for (int round = 0; round < 60 || (partial == 0 && round < 600); ++round) {
    const fs::path folder = t.path / std::to_string(round), path = folder / "a.klab";
    fs::create_directories(folder);
    run_and_kill([&] { (void)write_sample(path); }, std::chrono::microseconds(random() % (1 + (2 * usual >> round % 6))));
    if (fs::exists(path)) {
      ++whole;
      auto r = Reader::open(path);
      ASSERT_TRUE(r && r->verify()) << "round " << round;
    }
    partial += sweep_partial(folder);
    EXPECT_EQ(entries(folder), fs::exists(path) ? "a.klab " : "") << "round " << round;
    ASSERT_TRUE(write_sample(path, {.replace = true})) << "the next one works";
  }
  RecordProperty("whole", whole);
  RecordProperty("partial", partial);
  EXPECT_GT(partial, 0) << "no kill came while the writer worked";
}

TEST(Kill, a_killed_replacement_leaves_the_old_bundle_or_the_new_one) {
  TempFolder t;
  const fs::path path = t.path / "a.klab";
  ASSERT_TRUE(write_sample(path, {}, 0));
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    run_and_kill(
        [&] {
          for (std::uint64_t seed = 0; seed < 1000; ++seed)
            (void)write_sample(path, {.replace = true}, seed * 10);
        },
        std::chrono::microseconds(random() % 6000));
    auto r = Reader::open(path);
    ASSERT_TRUE(r) << r.error().what;
    ASSERT_TRUE(r->verify()) << "round " << round;
    sweep_partial(t.path);
    EXPECT_EQ(entries(t.path), "a.klab ") << "round " << round;
  }
}

TEST(Kill, a_killed_update_leaves_a_manifest_that_reads) {
  TempFolder t;
  const fs::path path = t.path / "a.klab";
  ASSERT_TRUE(write_sample(path));
  const Manifest m = Reader::open(path)->manifest();
  std::mt19937 random(13);
  for (int round = 0; round < 30; ++round) {
    run_and_kill(
        [&] {
          Manifest mine = m;
          for (std::uint32_t n = 0; n < 100000; ++n) {
            mine.dispatches[0].proof.replays = n;
            (void)update_manifest(path, mine);
          }
        },
        std::chrono::microseconds(random() % 4000));
    auto r = Reader::open(path);
    ASSERT_TRUE(r && r->verify()) << "round " << round;
  }
  EXPECT_TRUE(write_sample(path, {.replace = true}))
      << "a temporary file left inside does not stand in the way";
  EXPECT_EQ(entries(t.path), "a.klab ");
}

TEST(Kill, a_killed_pack_or_unpack_leaves_nothing_half) {
  TempFolder t;
  const fs::path file = t.path / "a.klabz", path = t.path / "b.klab";
  ASSERT_TRUE(write_sample(t.path / "a.klab"));
  std::mt19937 random(17);
  const std::uint64_t usual = microseconds_of([&] {
    (void)pack(t.path / "a.klab", file);
    (void)unpack(file, path);
  });
  fs::remove(file);
  fs::remove_all(path);
  for (int round = 0; round < 40; ++round) {
    run_and_kill(
        [&] {
          (void)pack(t.path / "a.klab", file);
          (void)unpack(file, path);
        },
        std::chrono::microseconds(random() % (2 * usual)));
    sweep_partial(t.path);
    if (fs::exists(path)) {
      ASSERT_TRUE(Reader::open(path)->verify());
      fs::remove_all(path);
    }
    if (fs::exists(file)) {
      ASSERT_TRUE(unpack(file, path)) << "round " << round;
      fs::remove_all(path);
    }
    fs::remove(file);
    EXPECT_EQ(entries(t.path), "a.klab ");
  }
}

TEST(Sweep, leaves_the_living_and_what_is_not_ours) {
  TempFolder t;
  auto w = Writer::create(t.path / "a.klab", {});
  ASSERT_TRUE(w);
  const std::string mine = entries(t.path);
  for (const char* name :
       {".b.klab.partial", "c.partial", ".d.1-2.partial", ".e.klab.x-1-abcd.partial", "f.klab"})
    fs::create_directories(t.path / name);
  EXPECT_EQ(sweep_partial(t.path), 0);
  EXPECT_EQ(std::distance(fs::directory_iterator(t.path), fs::directory_iterator()), 6);
  // Our pid with another start time is a process that is gone.
  fs::create_directories(t.path / (".g.klab." + std::to_string(::getpid()) + "-1-abcd.partial") / "code");
  EXPECT_EQ(sweep_partial(t.path), 1);
  EXPECT_NE(entries(t.path).find(mine), std::string::npos);
  EXPECT_TRUE(w->add_code("spirv", "spv", noise(4, 1)));
  EXPECT_EQ(sweep_partial(t.path / "none"), 0);
}

TEST(Fork, a_child_that_exits_does_not_remove_its_parents_staging_folder) {
  TempFolder t;
  auto w = std::make_unique<Result<Writer>>(Writer::create(t.path / "a.klab", {}));
  ASSERT_TRUE(*w);
  const pid_t child = ::fork();
  if (child == 0) {
    w.reset();
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_FALSE(fs::is_empty(t.path));
}

// What happens on a disk of `limit` bytes, in a child so that its mount and limits end with it.
enum Outcome {
  wrote_all = 1,
  told_disk_full = 2,
  told_io_failed = 3,
  left_litter = 4,
  lost_old = 5,
  other = 6
};

int fill_disk(const fs::path& folder, bool may_mount) {
  constexpr std::uint64_t limit = 4 << 20;
  if (may_mount) {
    if (::mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=4m") != 0) return other;
  } else {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit r{limit, limit};
    if (::setrlimit(RLIMIT_FSIZE, &r) != 0) return other;
  }
  const fs::path path = folder / "a.klab";
  if (!write_sample(path)) return other;
  const std::string before = entries(folder);
  ErrorCode code = ErrorCode::internal;
  {
    auto w = Writer::create(path, {.replace = true});
    if (!w || !w->add_list(16 * kChunkSize)) return other;
    Status s;
    for (std::uint64_t c = 0; s && c < 16; ++c) s = w->put(0, c, noise(kChunkSize, c + 1));
    if (s) return wrote_all;
    code = s.error().code;
  }
  if (entries(folder) != before) return left_litter;
  if (auto r = Reader::open(path); !r || !r->verify()) return lost_old;
  if (!write_sample(path, {.replace = true}, 5)) return other;  // there is room again
  return code == ErrorCode::disk_full   ? told_disk_full
         : code == ErrorCode::io_failed ? told_io_failed
                                        : other;
}

int in_child(const std::function<int()>& work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(FullDisk, is_told_and_the_old_bundle_stays) {
  TempFolder t;
  const bool may_mount = in_child([&] {
                           return ::unshare(CLONE_NEWNS) == 0 &&
                                          ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                                          ::mount("tmpfs", t.path.c_str(), "tmpfs", 0, "size=64k") == 0
                                      ? 0
                                      : 1;
                         }) == 0;
  const int outcome = in_child([&] {
    if (may_mount &&
        (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0))
      return static_cast<int>(other);
    return fill_disk(t.path, may_mount);
  });
  RecordProperty("mounted", may_mount);
  if (may_mount) {
    EXPECT_EQ(outcome, told_disk_full);
  } else {
    EXPECT_EQ(outcome, told_io_failed) << "EFBIG: a file size limit";
  }
  // The other way to run out, also where mounts are allowed.
  EXPECT_EQ(in_child([&] { return fill_disk(t.path, false); }), told_io_failed);
}

}  // namespace
}  // namespace klab::bundle
