// SPDX-License-Identifier: Apache-2.0
// Levels, variables that remember, times that cannot be, races: the real klab-worker on the fake device.
#include "worker/fake_worker.h"

namespace klab::worker {
namespace {

using namespace testing;
using bundle::ProofState;
using replay::AddressMode;
using replay::Answer;
using replay::CacheState;
using replay::Mode;
using replay::Outcome;
using replay::Request;
using ::testing::HasSubstr;
using validate::Correctness;

/// Region 1 of the bundles here holds floats.
replay::Checks numeric(std::optional<validate::Tolerance> tolerance = std::nullopt) {
  replay::Checks c{.level = validate::Level::numeric, .tolerance = tolerance};
  for (std::uint32_t region : {0u, 1u})
    c.types[0].push_back({.region = region,
                          .size = kElements * 4,
                          .stride = 4,
                          .fields = {{0, validate::ElementType::f32, 1, ""}},
                          .from = "test"});
  return c;
}

TEST_F(FakeWorker, a_tolerance_covers_what_varies_and_nothing_more) {
  TestBundle b = scale_bundle();
  b.code = bytes_of(program("racy"));  // the last bits of some elements differ from launch to launch
  write(b);
  Request r = request("replay", {{}});
  r.checks = numeric();
  const Answer own = ask(r);
  EXPECT_EQ(own.variants.at(0).validation.correctness, Correctness::correct) << own.variants[0].validation.reason;
  EXPECT_GE(own.variants[0].validation.launches_checked, 135u);
  EXPECT_TRUE(own.variants[0].validation.oracle.at("half precision"));
  r.variants = {variant(program("scale"))};
  const Answer steady = ask(r);
  EXPECT_EQ(steady.variants.at(0).validation.correctness, Correctness::correct) << steady.variants[0].validation.reason;
  EXPECT_GT(steady.variants[0].validation.values.different, 0u);
  for (const char* kernel : {"scale_half", "scale_skip_first", "zeros", "noop", "copy"}) {
    r.variants = {variant(program(kernel))};
    EXPECT_EQ(ask(r).variants.at(0).validation.correctness, Correctness::incorrect) << kernel;
  }
  r.checks = numeric(validate::Tolerance{0, 1e-12});
  r.variants = {variant(program("scale"))};
  const Answer tight = ask(r);
  EXPECT_EQ(tight.variants.at(0).validation.correctness, Correctness::not_verified);
  EXPECT_THAT(tight.variants[0].validation.reason, HasSubstr("own results differ from run to run"));
}

TEST_F(FakeWorker, every_launch_is_held_against_the_tolerance) {
  write(scale_bundle());
  Request r = request("replay", {variant(program("scale", "fault wrong_answer at 90\n"))});
  r.checks = numeric(validate::Tolerance{0, 1e-9});  // less than the bit that is flipped
  const Answer late = ask(r);
  EXPECT_EQ(late.variants.at(0).validation.correctness, Correctness::incorrect) << late.variants[0].validation.reason;
  EXPECT_THAT(late.variants[0].validation.reason, HasSubstr("launch 90"));
}

TEST_F(FakeWorker, what_depends_on_an_earlier_launch_is_incorrect) {
  write(scale_bundle());
  const Answer a = replay_variant(program("remembers", "variable seen 4\n"));
  EXPECT_EQ(a.variants.at(0).validation.correctness, Correctness::incorrect) << a.variants[0].validation.reason;
  EXPECT_THAT(a.variants[0].validation.reason, HasSubstr("an earlier launch left in its variable seen"));
  EXPECT_THAT(a.notes, ::testing::Contains(HasSubstr("gets its first value back before each launch")));
}

TEST_F(FakeWorker, device_time_that_cannot_be_is_not_verified) {
  write(scale_bundle());
  const Answer a = replay_variant(program("scale", "time 1e9\n"));
  EXPECT_EQ(a.variants.at(0).validation.correctness, Correctness::not_verified) << a.variants[0].validation.reason;
  EXPECT_THAT(a.variants[0].validation.reason, HasSubstr("on the device, and the host waited"));
}

TEST_F(FakeWorker, a_race_of_one_launch_in_twenty_is_caught) {
  write(scale_bundle());
  int caught = 0;
  for (int n = 0; n < 8; ++n) {
    std::string faults;
    for (int at = 20; at < 200; at += 20) faults += "fault wrong_answer at " + std::to_string(at - n) + "\n";
    caught += replay_variant(program("scale", faults)).variants.at(0).validation.correctness == Correctness::incorrect;
  }
  EXPECT_EQ(caught, 8);
}

}  // namespace
}  // namespace klab::worker
