// SPDX-License-Identifier: Apache-2.0
#include "ops/session_work.h"

#include <fmt/format.h>

#include "ops/session_files.h"

namespace klab::ops {
namespace {

using session::JobState;
using session::Move;
using session::State;

// The Lab reports to the log too, and its rows carry the session; both end with the work.
class Attached {
 public:
  Attached(Lab& lab, const std::string& session, std::int64_t job, JobLog& log)
      : lab_(lab), progress_(lab.progress), session_(lab.session), job_(lab.job) {
    lab.session = session;
    lab.job = job;
    lab.progress = [outer = progress_, &log, last = std::string()](
                       const std::string& line, std::uint64_t done, std::uint64_t total) mutable {
      if (line != last) log.line(last = line);
      if (outer) outer(line, done, total);
    };
  }
  ~Attached() {
    lab_.progress = progress_;
    lab_.session = session_;
    lab_.job = job_;
  }
  Attached(const Attached&) = delete;

 private:
  Lab& lab_;
  std::function<void(const std::string&, std::uint64_t, std::uint64_t)> progress_;
  std::string session_;
  std::int64_t job_;
};

Json action(const char* verb, const char* why) { return Json{{"verb", verb}, {"why", why}}; }

}  // namespace

Json next_actions(const session::SessionRow& row) {
  Json list = Json::array();
  const bool program = !row.program.empty();
  switch (row.state) {
    case State::opened:
    case State::source_selected:
      if (program) {
        list.push_back(action("session.trace", "list the program's dispatches by GPU time"));
        list.push_back(action("session.capture", "take one dispatch out of the program with its inputs"));
      }
      list.push_back(action("session.search", "find the kernel's source under the roots"));
      list.push_back(action("session.select", "say which source file or which dispatch it is"));
      break;
    case State::captured:
    case State::idle:
    case State::saved:
      if (row.state == State::captured) list.push_back(action("session.search", "find the kernel's source"));
      list.push_back(action("session.run", "time the baseline or a variant under stated conditions"));
      list.push_back(action("session.build", "build a variant from an edited source"));
      list.push_back(action("session.compare", "judge a variant: is it right, and is it faster"));
      if (row.state != State::captured)
        list.push_back(action("session.save", "write a correct variant back"));
      list.push_back(action("session.report", "the evidence so far"));
      break;
    case State::running:
      list.push_back(action("job.wait", "wait for the job that runs"));
      list.push_back(action("job.cancel", "stop it"));
      return list;
    case State::closed:
      list.push_back(action("session.report", "results stay after closing"));
      list.push_back(action("session.open", "start another"));
      return list;
  }
  list.push_back(action("session.close", "delete the captured inputs; results, logs and backups stay"));
  return list;
}

Json with_session(Json answer, const session::SessionRow& row) {
  answer["session"] = row;
  answer["next_actions"] = next_actions(row);
  return answer;
}

Result<Json> work_in_session(Lab& lab, const std::string& id, const std::string& kind, Move move,
                             const Json& request, const std::function<Result<Json>(SessionWork&)>& body) {
  KLAB_TRY(session::Store * store, lab.store());
  session::Sessions sessions = store->sessions();
  KLAB_TRY(session::SessionRow before, sessions.get(id));
  // Its process may have died since anybody looked.
  if (before.state == State::running) KLAB_TRY_VOID(sessions.recover());
  Settings settings;
  KLAB_TRY(settings, decode_json<Settings>(before.settings, "stored settings"));
  const fs::path folder = session_folder(lab.home(), id);

  session::JobRow job{.session = id, .kind = kind, .state = JobState::running, .request = request};
  // The log's name has the job's number, which there is only then.
  job.log = (folder / "logs").string();
  std::int64_t number = lab.job;
  KLAB_TRY(session::SessionRow row, sessions.begin_work(id, move, number, job));
  const session::SessionRow started = row;
  JobLog log(folder / "logs" / fmt::format("{}.log", number), settings.job_log_bytes);
  log.line(fmt::format("{} of session {}, for {}", kind, id, lab.front_end));

  Result<Json> answer = fail(ErrorCode::internal, "the work did not begin");
  Json said = Json::object();
  {
    Attached attached(lab, id, number, log);
    SessionWork work{lab, *store, row, folder, settings, log, number};
    try {
      answer = body(work);
    } catch (const std::exception& e) {
      answer = fail(ErrorCode::internal, fmt::format("{}: {}", kind, e.what()),
                    "this is a bug of klab: please report it");
    }
    said = std::move(work.said);
  }
  said["job"] = number;
  said["by"] = lab.front_end;
  JobState state = JobState::done;
  if (answer) {
    (*answer)["job"] = number;
    row.state = *session::next(started.rest, move);
    if (row.state == State::running) row.state = State::idle;
    // What count_run counted stays; the body changed its own copy of the rest.
    KLAB_TRY(const session::SessionRow now, sessions.get(id));
    row.runs = now.runs;
    const Status updated = sessions.update(row);
    if (!updated) answer = fail(updated.error());
  }
  if (answer) {
    answer = with_session(std::move(*answer), row);
    log.line("done");
  } else {
    const Error& error = answer.error();
    state = error.code == ErrorCode::interrupted ? JobState::cancelled : JobState::failed;
    said["error"] = error;
    log.line(fmt::format("{}: {}: {}", to_string(state), to_string(error.code), error.what));
  }
  said["state"] = state;
  const Json result = answer ? *answer : Json{{"error", answer.error()}};
  if (const auto ended = sessions.end_work(id, move, number, state, result, said); !ended) {
    if (answer) return fail(ended.error());
    log.line(ended.error().what);
  }
  return answer;
}

Result<capture::Target> session_target(SessionWork& work, double limit_s) {
  if (work.row.program.empty())
    return fail(ErrorCode::illegal_state, fmt::format("session {} has no program to run", work.row.id),
                "open a session with one: klab session open -- ./program, or [programs.NAME] in klab.toml");
  capture::Target target{.argv = work.row.program, .working_folder = work.row.working_folder};
  for (const auto& [name, value] : work.lab.environment) target.environment[name] = value;
  if (const auto own = work.row.settings.find("environment");
      own != work.row.settings.end() && own->is_object())
    for (const auto& [name, value] : own->items())
      if (value.is_string()) target.environment[name] = value.get<std::string>();
  target.limit = std::chrono::milliseconds(static_cast<std::int64_t>(limit_s * 1000));
  target.output = work.log.pipe();
  target.quiet = target.output < 0;
  return target;
}

Result<fs::path> session_bundle(const session::SessionRow& row) {
  if (row.bundle_path.empty())
    return fail(ErrorCode::illegal_state, fmt::format("session {} has no capture yet", row.id),
                "capture the dispatch first");
  return fs::path(row.bundle_path);
}

}  // namespace klab::ops
