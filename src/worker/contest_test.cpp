// SPDX-License-Identifier: Apache-2.0
// Comparisons through the real klab-worker on the fake device, whose times are known.
#include <atomic>
#include <thread>

#include "measure/comparison.h"
#include "worker/contest.h"
#include "worker/fake_worker.h"
#include "worker/observer.h"

namespace klab::worker {
namespace {

using measure::Verdict;
using replay::Outcome;
using validate::Correctness;
using ::testing::HasSubstr;

class Contest : public FakeWorker {
 protected:
  Request compare(const std::string& a, const std::string& b) {
    TestBundle bundle_of_a = scale_bundle();
    bundle_of_a.code = bytes_of(program("scale", a));
    write(bundle_of_a);
    Request r = request("compare", {{.label = "A"}, variant(program("scale", b))});
    r.comparing.measure_s = 0.4;
    return r;
  }
  static measure::Comparison comparison_of(const Answer& a) {
    auto c = decode_json<measure::Comparison>(a.comparison, "comparison");
    EXPECT_TRUE(c) << a.comparison.dump().substr(0, 300) << (a.error ? a.error->what : "");
    for (const auto& v : a.variants) EXPECT_TRUE(c) << v.label << ": " << v.validation.reason;
    return c.value_or(measure::Comparison{});
  }
};

TEST_F(Contest, says_by_how_much_at_least_a_variant_is_faster) {
  Request r = compare("time 100000\n", "time 90000\n");
  r.comparing = {.measure_s = 3, .placements = 3, .blocks = 6};  // time for whole letters, and few of them
  const Answer a = ask(r);
  const auto c = comparison_of(a);
  EXPECT_EQ(c.conclusion.verdict, Verdict::faster) << c.conclusion.reason;
  EXPECT_NEAR(c.conclusion.interval.ratio, 0.9, 1e-9);
  EXPECT_THAT(c.conclusion.headline, HasSubstr("at least 10.00 % less time"));
  EXPECT_THAT(measure::verify(c), ::testing::IsEmpty());
  EXPECT_GE(a.comparison.value("launches_per_letter", 0), 10) << "a letter is at least a millisecond of launches";
  EXPECT_EQ(a.comparison["floor"].value("class", ""), "100us-1ms cold");
  EXPECT_TRUE(a.comparison["floor"].value("measured", false));
  EXPECT_EQ(comparison_of(ask(compare("time 100000\n", "time 110000\n"))).conclusion.verdict, Verdict::slower);
}

TEST_F(Contest, drift_does_not_make_a_difference) {
  const auto c = comparison_of(ask(compare("time 100000\ndrift 0.0002\n", "time 100000\ndrift 0.0002\n# another\n")));
  EXPECT_EQ(c.conclusion.verdict, Verdict::equivalent) << c.conclusion.reason;
}

TEST_F(Contest, equal_code_and_launch_are_identical_and_not_timed_unless_the_measuring_is_tested) {
  Request r = compare("time 100000\n", "time 100000\n");
  EXPECT_TRUE(ask(r).comparison.is_null());
  r.comparing.identity = false;
  EXPECT_EQ(comparison_of(ask(r)).conclusion.verdict, Verdict::equivalent);
  r.comparing.identity = true;
  r.comparing.measure_s = 0;
  r.variants[1] = variant(program("scale", "time 5\n"));
  const Answer judged = ask(r);
  EXPECT_TRUE(judged.comparison.is_null());
  EXPECT_EQ(judged.variants.at(1).validation.correctness, Correctness::correct);
}

TEST_F(Contest, a_wrong_variant_is_not_timed) {
  const Answer a = ask(compare("time 100000\n", "time 10\nfault wrong_answer at 3\n"));
  EXPECT_EQ(a.variants.at(1).validation.correctness, Correctness::incorrect);
  EXPECT_TRUE(a.comparison.is_null());
  EXPECT_TRUE(a.variants[1].samples_ns.empty());
}

TEST_F(Contest, a_floor_that_is_known_is_used_and_one_from_a_shorter_budget_is_not) {
  Request r = compare("time 100000\n", "time 98000\n");
  const std::string key = ask(r).comparison["floor"].value("key", "");
  ASSERT_FALSE(key.empty());
  r.comparing.floors[key] = {.value = 0.04, .budget_s = 1, .at = "then"};
  const Answer with = ask(r);
  EXPECT_FALSE(with.comparison["floor"].value("measured", true));
  EXPECT_EQ(comparison_of(with).conclusion.verdict, Verdict::equivalent) << "2 % is within the floor";
  r.comparing.floors[key].budget_s = 0.1;
  const Answer again = ask(r);
  EXPECT_TRUE(again.comparison["floor"].value("measured", false));
  EXPECT_EQ(comparison_of(again).conclusion.verdict, Verdict::faster);
}

TEST_F(Contest, every_placement_has_blocks_of_both_orders_in_balance) {
  Request r = compare("time 100000\n", "time 100000\n# b\n");
  r.comparing.placements = 4;  // with three a short budget may have fewer blocks
  const auto c = comparison_of(ask(r));
  std::map<std::uint32_t, int> of;
  int baab = 0;
  for (const auto& b : c.blocks) ++of[b.placement], baab += b.starts_with_b;
  EXPECT_GE(of.size(), measure::kFewestPlacements);
  for (const auto& [placement, n] : of) EXPECT_GE(n, 6) << placement;
  if (of.size() == c.design.looks.back().placements) {
    EXPECT_LE(std::abs(2 * baab - static_cast<int>(c.blocks.size())), 1);
  }
}

TEST_F(Contest, ends_with_what_it_has_when_it_is_told_to_stop) {
  Request r = compare("time 100000\n", "time 50000\n");
  r.comparing.measure_s = 60;
  r.comparing.floors = {};
  r.comparing.placements = 32;
  std::thread stopper([&] {
    std::this_thread::sleep_for(std::chrono::seconds(2));
    worker.child().kill(replay::kStopSignal);
  });
  const auto start = std::chrono::steady_clock::now();
  const Answer a = ask(r);
  stopper.join();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  ASSERT_EQ(a.outcome, Outcome::ok);
  const auto c = comparison_of(a);
  EXPECT_TRUE(c.interrupted);
  EXPECT_EQ(c.conclusion.verdict, Verdict::inconclusive);
  EXPECT_THAT(c.conclusion.reason, HasSubstr("interrupted"));
  EXPECT_EQ(ask(request("proof")).outcome, Outcome::ok) << "the worker goes on";
}

TEST(FloorClass, is_a_decade_and_a_cache_state) {
  EXPECT_EQ(floor_class(4400, "warm"), "1us-10us warm");
  EXPECT_EQ(floor_class(10000, "cold"), "10us-100us cold");
  EXPECT_EQ(floor_class(2.5e9, "cold"), "1s-10s cold");
  EXPECT_EQ(floor_class(0, "cold"), "1ns-10ns cold");
}

}  // namespace
}  // namespace klab::worker
