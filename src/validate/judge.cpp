// SPDX-License-Identifier: Apache-2.0
#include "validate/judge.h"

#include <fmt/format.h>

#include "validate/oracle.h"

namespace klab::validate {

namespace {

const char* bad_variant(const std::string& name) {
  if (name == "no-op") return "a variant that does nothing";
  if (name == "zeros") return "a variant that writes only zeros";
  if (name == "ones") return "a variant that writes only 0xff";
  if (name == "constant") return "a variant that writes one value everywhere";
  if (name == "shuffle") return "a variant that writes the right values in another order";
  if (name == "copy of an input") return "a variant that copies an input";
  return "a variant of half the precision";
}

std::string plural(std::uint64_t n, const char* what) { return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s"); }

std::string how_far(const ValueStats& v) {
  if (v.nan_mismatch + v.infinity_mismatch != 0)
    return fmt::format("{} where one is NaN or infinite and the other is not",
                       plural(v.nan_mismatch + v.infinity_mismatch, "element"));
  return fmt::format("at most {} apart, {:.3g} absolute, {:.3g} relative", plural(v.max_ulp, "ULP"), v.max_absolute,
                     v.max_relative);
}

std::string wrong_text(const Evidence& e) {
  if (e.level == Level::numeric)
    return fmt::format("{} byte(s) or element(s) differ from the baseline by more than the tolerance: {}{}", e.wrong,
                       e.where, e.values.different != 0 ? "; " + how_far(e.values) : "");
  std::string text = fmt::format("{} differ{} from the baseline: {}", plural(e.wrong, "byte"), e.wrong == 1 ? "s" : "",
                                 e.where);
  if (e.values.different != 0)
    text += fmt::format("; {} of {} floating-point elements differ, {}", e.values.different, e.values.elements,
                        how_far(e.values));
  return text;
}

std::string right_text(const Evidence& e) {
  const std::string text = fmt::format("in {} checked launch{} on {}", e.launches_checked,
                                       e.launches_checked == 1 ? "" : "es", plural(e.inputs_tried, "input"));
  switch (e.level) {
    case Level::bitwise:
      return "bitwise equal " + text;
    case Level::numeric:
      return e.values.different == 0 ? "bitwise equal " + text
                                     : fmt::format("within the tolerance {}: {} of {} elements differ, {}", text,
                                                   e.values.different, e.values.elements, how_far(e.values));
    case Level::custom:
      return "accepted by the checker " + text;
  }
  return text;
}

}  // namespace

Judgement judge(const Evidence& e) {
  if (!e.run_failed.empty()) return {Correctness::failed, e.run_failed};
  // What is known to be wrong is said first: nothing that could not be checked makes it less wrong.
  if (!e.outside.empty()) return {Correctness::incorrect, e.outside};
  if (e.wrong != 0) return {Correctness::incorrect, wrong_text(e)};
  if (!e.checker_refused.empty()) return {Correctness::incorrect, e.checker_refused};
  if (!e.redzone.empty()) return {Correctness::incorrect, e.redzone};
  if (!e.wrong_launch.empty()) return {Correctness::incorrect, e.wrong_launch};
  // Under a tolerance a difference on an input of no meaning (infinite, or NaN) is none.
  if (e.mutation_needed && e.level == Level::bitwise && !e.mutated_difference.empty())
    return {Correctness::incorrect,
            "equal on the captured input, where doing nothing would be too, but " + e.mutated_difference};
  if (e.mutation_is_bounded && !e.mutated_difference.empty())
    return {Correctness::incorrect, "right on the captured input only: " + e.mutated_difference};
  if (!e.precision.empty()) return {Correctness::incorrect, e.precision};
  if (!e.not_judged.empty()) return {Correctness::not_verified, e.not_judged};
  if (!e.inconsistent.empty()) return {Correctness::not_verified, e.inconsistent};
  if (!e.tolerance.empty()) return {Correctness::not_verified, e.tolerance};
  if (e.varying_elements != 0)
    return {Correctness::not_verified,
            fmt::format("{} of {} elements vary from run to run of the baseline; the rest is equal, but {}",
                        e.varying_elements, e.elements,
                        e.level == Level::bitwise ? "a bitwise check cannot cover those (numeric can, where they are "
                                                    "floating-point)"
                                                  : "they are no floating-point elements, so no tolerance covers them")};
  if (const std::string bad = uncaught(e.oracle); !bad.empty()) {
    return {Correctness::not_verified,
            fmt::format("equal, but {} cannot be told from a right one on {} tried{}", bad_variant(bad),
                        plural(e.inputs_tried, "input"),
                        e.mutations_dropped == 0 ? std::string()
                                                 : fmt::format(" ({} mutated ones made the baseline fault)",
                                                               e.mutations_dropped))};
  }
  if (!e.mutated_difference.empty())
    return {Correctness::not_verified, "equal on the captured input, but " + e.mutated_difference};
  return {Correctness::correct, right_text(e)};
}

}  // namespace klab::validate
