// SPDX-License-Identifier: Apache-2.0
#include "ops/session.h"

#include "ops/session_verbs.h"

namespace klab::ops {
namespace {

constexpr Verb kVerbs[] = {
    {"session.open", "open a laboratory: roots, program, perhaps a bundle", Uses::nothing, false, session_open},
    {"session.list", "sessions, the newest first", Uses::nothing, true, session_list},
    {"session.status", "one session: summary, dispatches, variants, runs, comparisons, jobs, events, saves, texts",
     Uses::nothing, true, session_status},
    {"session.trace", "run the session's program and list its dispatches by GPU time", Uses::program, false,
     session_trace},
    {"session.search", "find the kernel's source under the roots", Uses::compiler, false, session_search},
    {"session.select", "say which source file or which dispatch it is", Uses::nothing, false, session_select},
    {"session.capture", "take one dispatch out of the session's program with its inputs", Uses::program, false,
     session_capture},
    {"session.build", "build a variant from a source under the roots or from a text", Uses::compiler, false,
     session_build},
    {"session.run", "time the baseline or a variant under stated conditions", Uses::device, false, session_run},
    {"session.compare", "judge a variant: is it right, and is it faster", Uses::device, false,
     session_compare},
    {"session.save", "write a correct variant into its source file, once a person has approved", Uses::nothing, false,
     session_save},
    {"session.undo", "put back what a save of the session replaced", Uses::nothing, false, session_undo},
    {"session.approvals", "saves that wait for a person", Uses::nothing, true, session_approvals},
    {"session.approve", "a person's word on a save", Uses::nothing, false, session_approve},
    {"session.report", "the evidence of a whole session", Uses::nothing, true, session_report},
    {"session.close", "delete the captured inputs; results, logs and backups stay", Uses::nothing, false,
     session_close},
    {"session.tune", "search over tuning parameters (not in this version)", Uses::nothing, true, session_tune},
};

}  // namespace

std::span<const Verb> session_verbs() { return kVerbs; }

Result<Json> session_tune(Lab&, const Json&) {
  return fail(ErrorCode::unsupported, "parameter search is not in this version",
              "build and compare the variants one by one: session.build, session.compare");
}

}  // namespace klab::ops
