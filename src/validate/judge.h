// SPDX-License-Identifier: Apache-2.0
// From what was seen to one of the closed verdicts, with the reason in plain words.
// Not here: speed (measure/), running anything (worker/).
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "validate/values.h"
#include "validate/verdict.h"

namespace klab::validate {

/// All that the verdict of one variant rests on.
struct Evidence {
  Level level = Level::bitwise;
  std::string run_failed;             // outcome and message when the variant did not run; empty: it ran
  std::uint64_t wrong = 0;            // bytes, or elements beyond their tolerance, on the captured input
  std::uint64_t differing_bytes = 0;  // in bits, outside the mask; a tolerance may take them
  ValueStats values;                  // of floating-point elements, over all inputs
  std::string where;                  // "region 1 (out) at offset 4: expected 0000803f, got 00000000"
  std::string outside;                // what it wrote outside what the baseline writes; empty: nothing
  std::string redzone;                // its result depends on what lies behind its buffers; empty: not
  std::string wrong_launch;           // a checked launch among the timed ones that was wrong; empty: none
  std::uint64_t varying_elements = 0,
                elements = 0;  // nondeterministic and all written elements of the baseline
  std::map<std::string, bool> oracle;
  std::string mutated_difference;  // how it differs on a mutated input; empty: it agrees on all
  bool mutation_needed = false;    // the captured input alone could not tell a bad variant apart
  bool mutation_is_bounded = true; // that input stays in the captured one's ranges: the baseline is right there too
  std::uint32_t inputs_tried = 1, launches_checked = 0;
  std::uint32_t mutations_dropped = 0;  // that the baseline did not survive
  std::string checker_refused;          // custom: what the user's checker said against it; empty: it accepts
  std::string precision;                // worse than the baseline against a given reference; empty: not
  std::string tolerance;                // why it is refused (too loose), with the figures; empty: it is fine
  std::string inconsistent;             // device time, wall time and launches do not fit together
  std::string not_judged;               // why nothing can be said (no reference, budget spent); empty: judged
};

struct Judgement {
  Correctness correctness = Correctness::not_verified;
  std::string reason;
};

Judgement judge(const Evidence& evidence);

}  // namespace klab::validate
