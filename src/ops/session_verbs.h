// SPDX-License-Identifier: Apache-2.0
// The functions behind the verbs of ops/session.h, one for each; what they take and give is in docs/sessions.md.
// Not here: the table of them (session.cpp).
#pragma once
#include "ops/lab.h"
#include "ops/requests.h"

namespace klab::ops {

Result<Json> session_open(Lab& lab, const Json& arguments);
Result<Json> session_list(Lab& lab, const Json& arguments);
Result<Json> session_close(Lab& lab, const Json& arguments);
Result<Json> session_status(Lab& lab, const Json& arguments);
Result<Json> session_trace(Lab& lab, const Json& arguments);
Result<Json> session_search(Lab& lab, const Json& arguments);
Result<Json> session_select(Lab& lab, const Json& arguments);
Result<Json> session_capture(Lab& lab, const Json& arguments);
Result<Json> session_build(Lab& lab, const Json& arguments);
Result<Json> session_run(Lab& lab, const Json& arguments);
Result<Json> session_compare(Lab& lab, const Json& arguments);
Result<Json> session_save(Lab& lab, const Json& arguments);
Result<Json> session_undo(Lab& lab, const Json& arguments);
Result<Json> session_approvals(Lab& lab, const Json& arguments);
Result<Json> session_approve(Lab& lab, const Json& arguments);
Result<Json> session_report(Lab& lab, const Json& arguments);
Result<Json> session_tune(Lab& lab, const Json& arguments);

}  // namespace klab::ops
