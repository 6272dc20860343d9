// SPDX-License-Identifier: Apache-2.0
// Cache state rotating on the fake device: every copy is run on and put back, and the answer says what ran.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/fake_worker.h"
#include "worker/rotation.h"

namespace klab::worker {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using replay::CacheState;
using replay::Outcome;
using validate::Correctness;

TEST(Rotation, has_copies_for_the_bytes_that_are_wanted) {
  EXPECT_EQ(Rotation::size_for(10, 100).value_or(0), 10u);
  EXPECT_EQ(Rotation::size_for(10, 101).value_or(0), 11u);
  EXPECT_EQ(Rotation::size_for(1000, 100).value_or(0), 2u) << "one place alone would be warm";
  EXPECT_EQ(Rotation::size_for(0, 100).error().code, ErrorCode::mode_mismatch);
  const auto many = Rotation::size_for(1, 65);
  EXPECT_EQ(many.error().code, ErrorCode::mode_mismatch);
  EXPECT_FALSE(many.error().hint.empty());
}

TEST_F(FakeWorker, every_copy_of_a_rotation_is_run_on_and_put_back) {
  write(saxpy_bundle());
  auto api = gpu::find_api("fake");
  ASSERT_TRUE(api) << api.error().what;
  auto device = (*api)->open("", {});
  ASSERT_TRUE(device) << device.error().what;
  Gpu gpu(std::move(*device));
  const Deadline deadline(60);
  auto rotation = Rotation::create(bundle, 0, gpu, {}, 4, deadline);
  ASSERT_TRUE(rotation) << rotation.error().what;
  ASSERT_EQ((*rotation)->size(), 4u);
  const ChunkList written = (*rotation)->loaded(1).chunks_of(1);
  const std::vector<replay::VariantCode> codes = {{}, {}};
  for (int placement = 0; placement < 2; ++placement) {
    ASSERT_TRUE((*rotation)->prepare(codes, written));
    for (std::size_t place = 1; place < 4; ++place) {
      Loaded& loaded = (*rotation)->loaded(place);
      const auto run = [&](bool restored, std::uint32_t which) {
        std::vector<gpu::Step> steps;
        if (restored) (*rotation)->restore(steps, place);
        (*rotation)->variant(place, which).append(steps);
        EXPECT_TRUE(gpu.run(steps, 1'000'000'000));
        return loaded.hash_all(deadline).value_or(std::vector<kernels::Hash>{});
      };
      EXPECT_EQ(loaded.changed(deadline).value_or(ChunkList{99}), ChunkList{}) << "a launch of another copy came here";
      const auto once = run(true, 0);
      EXPECT_EQ(loaded.changed(deadline).value_or(ChunkList{}), written);
      EXPECT_NE(run(false, 0), once) << "in place: a second launch without restoring";
      EXPECT_EQ(run(true, 1), once);
      EXPECT_EQ(loaded.post(written[0]).value_or(validate::ByteBuffer{}), loaded.download(written[0]).value_or(validate::ByteBuffer(1)));
    }
    ASSERT_TRUE((*rotation)->place_again(7, deadline));
  }
}

TEST_F(FakeWorker, rotating_flushes_nothing_and_says_on_how_many_copies_it_ran) {
  TestBundle b = scale_bundle(kMany);
  b.code = bytes_of(program("scale", "time 100\ncold_time 900\n"));
  write(b);
  Request r = request("replay", {{}});
  r.conditions.cache = CacheState::rotating;
  const Answer a = ask(r);
  ASSERT_EQ(a.outcome, Outcome::ok) << (a.error ? a.error->what : "");
  EXPECT_EQ(a.variants.at(0).samples_ns, std::vector<double>(20, 100.0));
  EXPECT_EQ(a.variants[0].validation.correctness, Correctness::correct) << a.variants[0].validation.reason;
  EXPECT_EQ(a.ran.cache, CacheState::rotating);
  EXPECT_THAT(a.notes, Contains(HasSubstr("take turns on 2 copies")));
  r.variants = {variant(program("scale_half"))};
  EXPECT_EQ(ask(r).variants.at(0).validation.correctness, Correctness::incorrect);
  r.variants = {{}, variant(program("scale", "time 90\n"))};
  r.verb = "compare";
  r.comparing = {.measure_s = 1, .placements = 3, .blocks = 2};
  const Answer c = ask(r);
  EXPECT_EQ(c.comparison["conclusion"].value("verdict", ""), "faster") << c.comparison.dump().substr(0, 400);
  EXPECT_THAT(c.comparison["floor"].value("class", ""), HasSubstr("rotating"));
}

TEST_F(FakeWorker, rotating_is_refused_where_it_cannot_be) {
  write(scale_bundle(100));  // the fake device has a cache of 64 KiB
  Request r = request("replay", {{}});
  r.conditions.cache = CacheState::rotating;
  Answer a = ask(r);
  ASSERT_EQ(a.outcome, Outcome::refused);
  EXPECT_THAT(a.error->what, HasSubstr("64 are the most"));
  r.conditions.mode = replay::Mode::repeats;
  r.conditions.repeats = 2;
  a = ask(r);
  ASSERT_EQ(a.outcome, Outcome::refused);
  EXPECT_THAT(a.error->what, HasSubstr("isolated"));
  r.conditions.mode = replay::Mode::isolated;
  r.counters = {"default"};
  EXPECT_EQ(ask(r).outcome, Outcome::refused);
}

}  // namespace
}  // namespace klab::worker
