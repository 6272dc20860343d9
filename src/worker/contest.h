// SPDX-License-Identifier: Apache-2.0
// The comparison of two variants as docs/measuring.md says it: warm-up, placements, blocks, looks.
// Not here: what blocks prove (measure/comparison.h), placing and preparing variants (server_compare.cpp).
#pragma once
#include <functional>

#include "measure/comparison.h"
#include "worker/observer.h"
#include "worker/timing.h"

namespace klab::worker {

/// What a contest is run with. All must outlive it.
struct ContestSetup {
  const replay::Comparing* how = nullptr;
  bool sustained = false;
  std::uint64_t seed = 1;
  ClockMeter* clock = nullptr;  // nullptr: no clock of the processors can be read
  Observer* observer = nullptr;
  /// Places everything anew and makes both variants ready. `pair` gets A and B, to be timed with the setup.
  std::function<Result<TimingSetup>(std::uint32_t placement, std::vector<Timed>& pair)> place;
  std::function<void(const std::string& text, std::uint64_t done, std::uint64_t total)> progress;
  std::function<bool()> stop;  // polled: the person has had enough
};

struct Contested {
  measure::Comparison comparison;
  Json facts = Json::object();             // budget, warm-up, time spent: docs/report.md
  std::vector<Timed> pair = {{}, {}};      // all samples and what their checks said; variants and checks are void
  std::string outside, inconsistent;       // as TimingFacts
};

/// `floor_for`: called once after the warm-up with A's median time, for the floor that the design is to have.
Result<Contested> run_contest(const ContestSetup& setup, double budget_s,
                              const std::function<Result<double>(double median_ns)>& floor_for, const Deadline& deadline);

/// "10us-100us cold": times of one decade under one cache state have one floor.
std::string floor_class(double median_ns, std::string_view cache);

}  // namespace klab::worker
