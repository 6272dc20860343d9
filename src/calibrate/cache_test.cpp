// SPDX-License-Identifier: Apache-2.0
// What is kept of calibrations, and who measures when several ask.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <ctime>
#include <fstream>
#include <thread>

#include "calibrate/cache.h"

namespace klab::calibrate {
namespace {

class CacheTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/klab-calibration-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    std::error_code error;
    fs::remove_all(folder_, error);
  }
  static std::int64_t now() { return static_cast<std::int64_t>(std::time(nullptr)); }
  static bundle::DeviceIdentity device() {
    return {.api = "cuda", .name = "Some GPU", .driver = "NVIDIA", .driver_version = "1.2", .uuid = "0123"};
  }
  Calibration sample(std::int64_t made_at = 0) const {
    Calibration c{.device = device(), .klab = "7", .made_at = made_at == 0 ? now() : made_at, .took_s = 3};
    c.figures.push_back({.kind = Kind::matrix, .name = "bf16", .unit = "GFLOP/s", .how = "wgmma",
                         .shape = "m64n256k16", .value = 700, .q1 = 690, .q3 = 710, .best = 720, .burst = 800,
                         .sustained_ms = 600, .samples = 9, .work = 1e9, .config = "132 blocks",
                         .tried = {{"132 blocks", 700}}});
    c.missing.push_back({"matrix fp8", "no such instructions"});
    c.notes = {"a note"};
    return c;
  }
  Cache cache(const char* version = "7") const { return Cache(folder_ / "calibration", version); }
  fs::path folder_;
};

TEST_F(CacheTest, gives_back_what_was_put_in_a_private_file) {
  const Calibration c = sample();
  ASSERT_TRUE(cache().put(c));
  const auto found = cache().find(device(), now());
  ASSERT_TRUE(found);
  EXPECT_EQ(Json(*found), Json(c));
  struct stat st {};
  ASSERT_EQ(::stat(cache().file(device()).c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
  ASSERT_EQ(::stat((folder_ / "calibration").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0700u);
}

TEST_F(CacheTest, forgets_after_seven_days_and_what_comes_from_the_future) {
  ASSERT_TRUE(cache().put(sample(now() - kValidSeconds + 60)));
  EXPECT_TRUE(cache().find(device(), now()));
  EXPECT_FALSE(cache().find(device(), now() + 120));
  ASSERT_TRUE(cache().put(sample(now() + 86400)));
  EXPECT_FALSE(cache().find(device(), now()));
}

TEST_F(CacheTest, is_none_of_another_driver_device_api_or_version) {
  ASSERT_TRUE(cache().put(sample()));
  auto other = device();
  other.driver_version = "1.3";
  EXPECT_FALSE(cache().find(other, now()));
  other = device();
  other.uuid = "4567";
  EXPECT_FALSE(cache().find(other, now()));
  other = device();
  other.api = "vulkan";
  EXPECT_FALSE(cache().find(other, now()));
  EXPECT_FALSE(cache("8").find(device(), now()));
  // The file of one under the name of another.
  other = device();
  other.driver_version = "1.3";
  fs::copy_file(cache().file(device()), cache().file(other));
  EXPECT_FALSE(cache().find(other, now()));
  EXPECT_EQ(cache().all().size(), 2u);
}

TEST_F(CacheTest, a_damaged_file_is_none) {
  ASSERT_TRUE(cache().put(sample()));
  const auto whole = read_file(cache().file(device()));
  ASSERT_TRUE(whole);
  for (const std::string& text :
       {std::string(), whole->substr(0, whole->size() / 2), std::string("[]"), std::string(5u << 20, ' '),
        std::string(*whole).replace(whole->find("\"value\": 700"), 12, "\"value\": -70"),
        std::string(*whole).replace(whole->find("\"value\": 700"), 12, "\"value\": \"7\"")}) {
    std::ofstream(cache().file(device()), std::ios::trunc) << text;
    EXPECT_FALSE(cache().find(device(), now())) << text.substr(0, 80);
    EXPECT_TRUE(cache().all().empty());
  }
}

TEST_F(CacheTest, two_processes_at_once_measure_once) {
  // Each child adds a byte for each time that it measures; the measuring ends when both have begun to ask.
  const fs::path measured = folder_ / "measured", begun = folder_ / "begun";
  std::vector<pid_t> children;
  for (int i = 0; i < 2; ++i) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      std::ofstream(begun, std::ios::app) << '.' << std::flush;
      const auto looked = find_or_measure(
          cache(), device(), false,
          [&]() -> Result<Calibration> {
            std::ofstream(measured, std::ios::app) << '.' << std::flush;
            while (fs::file_size(begun) < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
            return sample();
          },
          {}, {});
      ::_exit(looked && looked->calibration.figures.size() == 1 ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(fs::file_size(measured), 1u);
}

TEST_F(CacheTest, one_that_was_killed_holds_nothing_and_leaves_nothing) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    (void)find_or_measure(
        cache(), device(), false,
        [&]() -> Result<Calibration> {
          (void)!::write(ready[1], "x", 1);
          for (;;) ::pause();
        },
        {}, {});
    ::_exit(1);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  bool waited = false;
  const auto cancelled = find_or_measure(
      cache(), device(), false, [&]() -> Result<Calibration> { return sample(); }, [&] { waited = true; },
      [&] { return waited; });
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code, ErrorCode::interrupted);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  const auto looked =
      find_or_measure(cache(), device(), false, [&]() -> Result<Calibration> { return sample(); }, {}, {});
  ASSERT_TRUE(looked);
  EXPECT_FALSE(looked->cached);
  EXPECT_TRUE(cache().find(device(), now()));
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_F(CacheTest, force_measures_again_and_a_failure_keeps_the_old_one) {
  ASSERT_TRUE(cache().put(sample()));
  int measured = 0;
  const auto count = [&]() -> Result<Calibration> {
    ++measured;
    Calibration c = sample();
    c.notes = {"again"};
    return c;
  };
  EXPECT_TRUE(find_or_measure(cache(), device(), false, count, {}, {})->cached);
  EXPECT_EQ(measured, 0);
  EXPECT_FALSE(find_or_measure(cache(), device(), true, count, {}, {})->cached);
  EXPECT_EQ(measured, 1);
  const auto failed = find_or_measure(
      cache(), device(), true, []() -> Result<Calibration> { return fail(ErrorCode::device_fault, "lost"); }, {}, {});
  EXPECT_FALSE(failed);
  EXPECT_EQ(cache().find(device(), now())->notes, std::vector<std::string>{"again"});
}

TEST_F(CacheTest, where_nothing_can_be_kept_the_answer_says_so) {
  std::ofstream(folder_ / "file") << "in the way";
  const Cache nowhere(folder_ / "file", "7");
  const auto looked =
      find_or_measure(nowhere, device(), false, [&]() -> Result<Calibration> { return sample(); }, {}, {});
  ASSERT_TRUE(looked);
  EXPECT_EQ(looked->calibration.notes.size(), 2u);
}

TEST(Calibration, a_worker_answer_is_checked) {
  const bundle::DeviceIdentity device{.api = "vulkan", .name = "x"};
  EXPECT_TRUE(from_answer(device, Json{{"figures", Json::array()}}, 1));
  EXPECT_FALSE(from_answer(device, Json(), 1));
  EXPECT_FALSE(from_answer(device, Json{{"figures", {{{"kind", "memory"}, {"name", "read"}}}}}, 1));
  EXPECT_FALSE(from_answer(device, Json{{"figures", 3}}, 1));
}

}  // namespace
}  // namespace klab::calibrate
