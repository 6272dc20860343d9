// SPDX-License-Identifier: Apache-2.0
#include "validate/judge.h"

#include <fmt/format.h>

#include "validate/oracle.h"

namespace klab::validate {

Judgement judge(const Evidence& e) {
  if (!e.run_failed.empty()) return {Correctness::failed, e.run_failed};
  // What is known to be wrong is said first: nothing that could not be checked makes it less wrong.
  if (!e.outside.empty()) return {Correctness::incorrect, e.outside};
  if (e.differing_bytes != 0)
    return {Correctness::incorrect,
            fmt::format("{} byte{} differ{} from the baseline: {}", e.differing_bytes,
                        e.differing_bytes == 1 ? "" : "s", e.differing_bytes == 1 ? "s" : "", e.where)};
  if (!e.wrong_launch.empty()) return {Correctness::incorrect, e.wrong_launch};
  if (e.mutation_needed && !e.mutated_difference.empty())
    return {Correctness::incorrect,
            "equal on the captured input, where doing nothing would be too, but " + e.mutated_difference};
  if (!e.not_judged.empty()) return {Correctness::not_verified, e.not_judged};
  if (e.varying_elements != 0)
    return {Correctness::not_verified,
            fmt::format(
                "{} of {} elements vary from run to run of the baseline; the rest is equal, but a bitwise "
                "check cannot cover those",
                e.varying_elements, e.elements)};
  if (const std::string bad = uncaught(e.oracle); !bad.empty()) {
    const char* what = bad == "no-op"   ? "a variant that does nothing"
                       : bad == "zeros" ? "a variant that writes only zeros"
                                        : "a variant that writes only 0xff";
    return {Correctness::not_verified,
            fmt::format("equal, but {} cannot be told from a right one on {} input{} tried{}", what,
                        e.inputs_tried, e.inputs_tried == 1 ? "" : "s",
                        e.mutations_dropped == 0 ? std::string()
                                                 : fmt::format(" ({} mutated ones made the baseline fault)",
                                                               e.mutations_dropped))};
  }
  if (!e.mutated_difference.empty())
    return {Correctness::not_verified, "equal on the captured input, but " + e.mutated_difference};
  return {Correctness::correct,
          fmt::format("bitwise equal in {} checked launch{} on {} input{}", e.launches_checked,
                      e.launches_checked == 1 ? "" : "es", e.inputs_tried, e.inputs_tried == 1 ? "" : "s")};
}

}  // namespace klab::validate
