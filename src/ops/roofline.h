// SPDX-License-Identifier: Apache-2.0
// A run's place under the roofs of its device: work from hardware counters or from the user, roofs from a calibration that
// is kept. Nothing is guessed and nothing is measured here.
#pragma once
#include "calibrate/roofline.h"
#include "ops/fields.h"
#include "ops/lab.h"

namespace klab::ops {

/// As the user says it: --flops 2e9, fp64=1e9, matrix:bf16=1.1e12; --bytes 1.2e9, read=8e8, written=4e8. Of one launch.
struct WorkText {
  std::vector<std::string> flops, bytes;
  bool empty() const { return flops.empty() && bytes.empty(); }
};
Fields& take_work(Fields& fields, WorkText& work);
Json work_arguments(const WorkText& work);
/// Errors: usage.
Result<calibrate::Work> parse_work(const WorkText& text);

/// calibrate::Placement of variant `index` of the answer as JSON; {"why"} when there is no work or no calibration to hold it
/// against. `given` comes before counters. When it is impossible, the variant is not verified any more.
Json place_run(replay::Answer& answer, std::size_t index, const calibrate::Work& given);

}  // namespace klab::ops
