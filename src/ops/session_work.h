// SPDX-License-Identifier: Apache-2.0
// A piece of a session's work: its job, its log, and the session's state while it lasts and after it, however it ends.
// Not here: what is done (session_*.cpp).
#pragma once
#include <functional>

#include "capture/capture.h"
#include "ops/job_log.h"
#include "ops/lab.h"
#include "ops/settings.h"

namespace klab::ops {

/// What the body of a verb works with. `row` may be changed and is written when the work is done.
struct SessionWork {
  Lab& lab;
  session::Store& store;
  session::SessionRow& row;
  fs::path folder;    // $KLAB_HOME/sessions/ID
  Settings settings;  // as they were when the session was opened
  JobLog& log;
  std::int64_t job = 0;
  Json said = Json::object();  // goes into the event of its end
};

/// Runs `body` as a job of session `id`: the session is `running` meanwhile; then it is where `move` leads, or on an
/// error, an exception or a cancellation where it came from. The answer gets session, job and next_actions.
/// `resting` of the job's events is `kind`. Errors: illegal_state (something else runs, or `move` is not possible),
/// not_found, those of `body`.
Result<Json> work_in_session(Lab& lab, const std::string& id, const std::string& kind, session::Move move,
                             const Json& request, const std::function<Result<Json>(SessionWork&)>& body);

/// What a session in this state can do next: [{verb, why}].
Json next_actions(const session::SessionRow& row);
/// An answer of a verb that is no job.
Json with_session(Json answer, const session::SessionRow& row);

/// The session's program as it is to be started: folder, environment, and where its output goes.
/// Errors: illegal_state when the session has none.
Result<capture::Target> session_target(SessionWork& work, double limit_s);

/// Errors: illegal_state before a capture, or when its bundle is gone.
Result<fs::path> session_bundle(const session::SessionRow& row);

}  // namespace klab::ops
