// SPDX-License-Identifier: Apache-2.0
// One request of the verbs replay and compare at work. Not here: framing, loading (server.h).
#pragma once
#include "worker/judge_variant.h"
#include "worker/server.h"
#include "worker/timing.h"

namespace klab::worker {

/// One request's variants over one placement.
struct Server::Run {
  const replay::Request& request;
  const Deadline& deadline;
  replay::Answer& answer;
  Loaded& loaded;
  std::vector<std::optional<Variant>> variants;
  std::vector<Judged> judged;
  std::vector<ChunkList> writes;  // seen, of each variant
  const Reference* reference_ = nullptr;
  std::uint64_t flush = 0;
  std::unique_ptr<Rotation> rotation;  // only of cache state rotating
  double busy_before_ns = 0;  // of the device, when this request began

  void fail_variant(std::size_t i, const Error& error);
  /// A failed launch is the variant's; what cannot be its fault is the request's.
  Status take(std::size_t i, const Error& error);
  bool any() const;
  void note(const std::string& text);
  void prepare_variants();
  Status judge_all(const Probed& probed);
  /// The bundle's other dispatches of this kernel are inputs that a variant's author need not have seen.
  void judge_captures();
  Status observe_all();
  /// Loads the copies that cache state rotating takes turns on.
  Status rotate();
  /// Chunks that only a wrong variant writes have one image: the pre-state.
  Result<Restorer> restorer_for(const ChunkList& restored);
  /// Times what is left of the variants once; samples are added to the answer.
  Status time_once(const replay::Conditions& c, bool with_counters, const OnDone& progress);
  /// Counters come last and in passes of their own, so that no timed launch is disturbed. Those that cannot
  /// be read are a note: the times stand.
  void count(const TimingSetup& setup, const std::vector<std::size_t>& who);
  /// Launches back to back, of the variants that allow it. The capture is pristine afterwards.
  Status measure_throughputs();
  /// A write that nobody owns up to: the captured kernel was proved, so the other did it; else it stays open.
  void blame(const std::vector<std::size_t>& who, std::size_t k, const std::string& what);
};

}  // namespace klab::worker
