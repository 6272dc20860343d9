// SPDX-License-Identifier: Apache-2.0
// Verbs that use the device: replay, compare, devices.
#pragma once
#include "measure/comparison.h"
#include "measure/summary.h"
#include "ops/checks.h"
#include "ops/lab.h"
#include "ops/roofline.h"

namespace klab::ops {

struct ReplayRequest {
  fs::path bundle;
  std::uint32_t dispatch = 0;
  std::string variant;  // "", "baseline", id, name or file
  LaunchText launch;    // on top of the variant's own
  replay::Conditions conditions;
  std::string device;
  std::vector<std::string> counters;  // "default", or names as the vendor has them
  bool validate = true;
  CheckText checks;
  WorkText work;
  bool cached = false;  // a stored run of the same code, launch, capture, device, driver and conditions will do
  double budget_s = 600;
};

struct Delta {
  std::int64_t run = 0;  // the earlier run
  std::string variant, at;
  double ratio = 1;  // this median over that one
};

struct Replayed {
  std::int64_t run = 0;  // its number in the store
  std::string kernel;
  std::uint32_t dispatch = 0;
  replay::Answer answer;  // exactly one variant
  measure::Summary summary;
  CodeFacts code;                                    // of the code that ran
  std::optional<compile::KernelFacts> kernel_facts;  // CUDA: of the kernel in it
  std::optional<Delta> delta;
  Json roofline;  // ops/roofline.h
  bool from_store = false;  // nothing ran: `run` is the earlier one
  const replay::VariantAnswer& variant() const { return answer.variants.front(); }
};
void to_json(Json& j, const Replayed& v);

/// Errors: those of the worker as errors (launch_failed, device_fault, timeout, ...), mode_mismatch when the
/// worker ran other conditions than asked; both are stored as what they were.
Result<Replayed> replay_dispatch(Lab& lab, const ReplayRequest& request);

struct CompareRequest {
  fs::path bundle;
  std::uint32_t dispatch = 0;
  std::string variant, against = "baseline";
  std::vector<std::string> variants;  // several, for compare_finalists(); then `variant` is empty
  double alpha = measure::kAlpha;     // chance of a false claim
  replay::Conditions conditions;
  std::string device;
  CheckText checks;
  WorkText work;  // of one launch, of either variant
  double measure_s = 10;  // replay::Comparing::measure_s
  double margin = 0.005;
  double budget_s = 600;
};
struct Compared {
  std::string kernel;
  std::uint32_t dispatch = 0;
  session::VerdictRow verdict;
  replay::Answer answer;  // variants: A (reference), B
  measure::Summary a, b;
  Json roofline[2];  // of A and B, where they were timed
  std::optional<measure::Comparison> comparison;  // only of a correct variant that is not `identical`
};
void to_json(Json& j, const Compared& v);
/// Correctness first; a verdict on speed only of a correct variant, by the protocol of docs/measuring.md.
/// Errors: as replay_dispatch when the reference itself could not run.
Result<Compared> compare_variants(Lab& lab, const CompareRequest& request);

/// Every one of `variants` (2 to measure::kMostFinalists) against the same reference, each with the time of one comparison and
/// placements of its own; what is claimed, and stored, holds for all of them together (measure::settle_finalists).
/// `settled`: claimed only after others were: their verdicts were stored a second time. Ends early when one is interrupted.
struct Finalists {
  std::vector<Compared> all;
  std::vector<std::size_t> settled;
  std::optional<std::size_t> best;  // of those called faster, the one with the lowest upper bound
};
void to_json(Json& j, const Finalists& v);
/// Errors: usage before anything is measured; else as compare_variants.
Result<Finalists> compare_finalists(Lab& lab, const CompareRequest& request);

/// Devices of every API of this build, with the reason where one cannot be used. JSON array as the worker
/// gives it.
Result<Json> list_devices(Lab& lab);

}  // namespace klab::ops
