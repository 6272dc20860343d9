// SPDX-License-Identifier: Apache-2.0
#include "session/sessions.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/ids.h"
#include "session/packed.h"

namespace klab::session {
namespace {

constexpr std::string_view kSessionColumns =
    "id, name, made_by, state, program, working_folder, roots, dispatch, bundle, bundle_path, owns_bundle, "
    "max_runs, runs, made_at, closed_at, rest, source, settings";
constexpr std::string_view kJobColumns =
    "id, session, kind, state, pid, pid_start, log, request, result, made_at, ended_at, packed";

Result<SessionRow> read_session(const Statement& s) {
  SessionRow v;
  v.id = s.text(0), v.name = s.text(1), v.made_by = s.text(2);
  if (!from_string(s.text(3), v.state))
    return fail(ErrorCode::store_failed,
                fmt::format("session {} is in a state that this klab does not know", v.id));
  KLAB_TRY(const Json program, parse_json(s.text(4), "stored program"));
  KLAB_TRY(v.program, decode_json<std::vector<std::string>>(program, "stored program"));
  v.working_folder = s.text(5);
  KLAB_TRY(const Json roots, parse_json(s.text(6), "stored roots"));
  KLAB_TRY(v.roots, decode_json<std::vector<std::string>>(roots, "stored roots"));
  KLAB_TRY(v.dispatch, parse_json(s.text(7), "stored dispatch"));
  v.bundle = s.text(8), v.bundle_path = s.text(9), v.owns_bundle = s.integer(10) != 0;
  v.max_runs = s.integer(11), v.runs = s.integer(12), v.made_at = s.text(13), v.closed_at = s.text(14);
  if (!from_string(s.text(15), v.rest)) v.rest = v.runs > 0 ? State::idle : State::captured;
  KLAB_TRY(v.source, parse_json(s.text(16), "stored source"));
  KLAB_TRY(v.settings, parse_json(s.text(17), "stored settings"));
  return v;
}

Result<JobRow> read_job(const Statement& s) {
  JobRow v;
  v.id = s.integer(0), v.session = s.text(1), v.kind = s.text(2);
  if (!from_string(s.text(3), v.state))
    return fail(ErrorCode::store_failed,
                fmt::format("job {} is in a state that this klab does not know", v.id));
  v.pid = s.integer(4), v.pid_start = static_cast<std::uint64_t>(s.integer(5)), v.log = s.text(6);
  KLAB_TRY(v.request, parse_json(s.text(7), "stored request"));
  if (const std::string packed = s.text(11); !packed.empty()) {
    KLAB_TRY(v.result, unpack_json(packed, "stored result"));
  } else {
    KLAB_TRY(v.result, parse_json(s.text(8), "stored result"));
  }
  v.made_at = s.text(9), v.ended_at = s.text(10);
  return v;
}

}  // namespace

void to_json(Json& j, const SessionRow& v) {
  j = Json{{"id", v.id},
           {"name", v.name},
           {"made_by", v.made_by},
           {"state", v.state},
           {"program", v.program},
           {"working_folder", v.working_folder},
           {"roots", v.roots},
           {"dispatch", v.dispatch},
           {"bundle", v.bundle_path},
           {"max_runs", v.max_runs},
           {"runs", v.runs},
           {"made_at", v.made_at}};
  if (!v.closed_at.empty()) j["closed_at"] = v.closed_at;
  if (!v.source.is_null()) j["source"] = v.source;
  if (v.state == State::running) j["rest"] = v.rest;
}

void to_json(Json& j, const JobRow& v) {
  j = Json{{"id", v.id},   {"session", v.session}, {"kind", v.kind},      {"state", v.state},
           {"log", v.log}, {"result", v.result},   {"made_at", v.made_at}};
  if (!v.ended_at.empty()) j["ended_at"] = v.ended_at;
}

void to_json(Json& j, const EventRow& v) {
  j = Json{{"id", v.id}, {"session", v.session}, {"kind", v.kind}, {"at", v.at}, {"detail", v.detail}};
}

std::uint64_t process_start(std::int64_t pid) {
  std::ifstream in(fmt::format("/proc/{}/stat", pid));
  std::string line;
  if (!std::getline(in, line)) return 0;
  const std::size_t name_end = line.rfind(')');  // the name may hold blanks and parentheses
  if (name_end == std::string::npos) return 0;
  std::istringstream rest(line.substr(name_end + 1));
  std::string field;
  for (int n = 3; n <= 22; ++n)
    if (!(rest >> field) || (n == 3 && (field == "Z" || field == "X")))
      return 0;  // ended, only not waited for
  return std::strtoull(field.c_str(), nullptr, 10);
}

Result<SessionRow> Sessions::open(SessionRow row) {
  if (row.id.empty()) row.id = "s" + new_id(7);
  row.made_at = utc_now();
  KLAB_TRY(Transaction transaction, Transaction::begin(*db_));
  KLAB_TRY(Statement s,
           db_->prepare(fmt::format(
               "INSERT INTO sessions({}) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
               kSessionColumns)));
  s.bind(row.id).bind(row.name).bind(row.made_by).bind(std::string_view(to_string(row.state)));
  s.bind(Json(row.program).dump()).bind(row.working_folder).bind(Json(row.roots).dump());
  s.bind(row.dispatch.dump()).bind(row.bundle).bind(row.bundle_path).bind(std::int64_t{row.owns_bundle});
  s.bind(row.max_runs).bind(row.runs).bind(row.made_at).bind(row.closed_at);
  s.bind(std::string_view(to_string(row.state))).bind(json_text(row.source)).bind(json_text(row.settings));
  KLAB_TRY_VOID(s.step());
  KLAB_TRY_VOID(add_event(row.id, "open", Json{{"by", row.made_by}}));
  KLAB_TRY_VOID(transaction.commit());
  return row;
}

Result<SessionRow> Sessions::get(const std::string& id) {
  KLAB_TRY(Statement s, db_->prepare(fmt::format("SELECT {} FROM sessions WHERE id = ?", kSessionColumns)));
  KLAB_TRY(const bool found, s.bind(id).step());
  if (found) return read_session(s);
  KLAB_TRY(const auto newest, list(true, 5));
  std::string ids;
  for (const SessionRow& row : newest) ids += (ids.empty() ? "" : ", ") + row.id;
  return fail(ErrorCode::not_found, fmt::format("there is no session {}", id),
              ids.empty() ? "open one first" : "the newest are " + ids);
}

Result<std::vector<SessionRow>> Sessions::list(bool closed_too, std::int64_t limit) {
  KLAB_TRY(Statement s,
           db_->prepare(fmt::format("SELECT {} FROM sessions {} ORDER BY made_at DESC, rowid DESC LIMIT ?",
                                    kSessionColumns, closed_too ? "" : "WHERE state <> 'closed'")));
  s.bind(limit);
  return read_all<SessionRow>(s, read_session);
}

Status Sessions::update(const SessionRow& row) {
  KLAB_TRY(
      Statement s,
      db_->prepare("UPDATE sessions SET name = ?, program = ?, working_folder = ?, roots = ?, dispatch = ?, "
                   "bundle = ?, bundle_path = ?, owns_bundle = ?, max_runs = ?, source = ?, settings = ? "
                   "WHERE id = ?"));
  s.bind(row.name).bind(Json(row.program).dump()).bind(row.working_folder).bind(Json(row.roots).dump());
  s.bind(row.dispatch.dump()).bind(row.bundle).bind(row.bundle_path).bind(std::int64_t{row.owns_bundle});
  s.bind(row.max_runs).bind(json_text(row.source)).bind(json_text(row.settings));
  KLAB_TRY_VOID(s.bind(row.id).step());
  return {};
}

namespace {
// What runs, for those who are refused meanwhile.
Error busy(Sessions& sessions, const SessionRow& row, Error refused) {
  if (const auto job = sessions.working_job(row.id))
    refused.what =
        fmt::format("session {} runs job {} ({}) now; {}", row.id, job->id, job->kind, refused.what);
  return refused;
}
}  // namespace

Result<SessionRow> Sessions::move(const std::string& id, Move move, const Json& detail) {
  KLAB_TRY(Transaction transaction, Transaction::begin(*db_));
  KLAB_TRY(SessionRow row, get(id));
  const auto to = next(row.state, move);
  if (!to) return fail(row.state == State::running ? busy(*this, row, to.error()) : to.error());
  row.state = *to;
  if (row.state == State::closed) row.closed_at = utc_now();
  KLAB_TRY(Statement s, db_->prepare("UPDATE sessions SET state = ?, closed_at = ?, rest = '' WHERE id = ?"));
  KLAB_TRY_VOID(s.bind(std::string_view(to_string(row.state))).bind(row.closed_at).bind(id).step());
  KLAB_TRY_VOID(add_event(id, to_string(move), detail));
  KLAB_TRY_VOID(transaction.commit());
  return row;
}

Result<SessionRow> Sessions::begin_work(const std::string& id, Move move, std::int64_t& job,
                                        const JobRow& row) {
  KLAB_TRY(Transaction transaction, Transaction::begin(*db_));
  KLAB_TRY(SessionRow session, get(id));
  if (const auto to = next(session.state, move); !to)
    return fail(session.state == State::running ? busy(*this, session, to.error()) : to.error());
  std::int64_t number = job;
  if (number == 0) {
    JobRow made = row;
    made.session = id;
    KLAB_TRY(number, add_job(made));
  }
  {
    KLAB_TRY(Statement s, db_->prepare("UPDATE jobs SET session = ?, kind = ?, log = ? WHERE id = ?"));
    KLAB_TRY_VOID(
        s.bind(id).bind(row.kind).bind(fmt::format("{}/{}.log", row.log, number)).bind(number).step());
  }
  KLAB_TRY_VOID(start_job(number));
  KLAB_TRY(Statement s, db_->prepare("UPDATE sessions SET state = 'running', rest = ? WHERE id = ?"));
  KLAB_TRY_VOID(s.bind(std::string_view(to_string(session.state))).bind(id).step());
  KLAB_TRY_VOID(add_event(id, "begin", Json{{"job", number}, {"kind", row.kind}, {"request", row.request}}));
  KLAB_TRY_VOID(transaction.commit());
  job = number;
  session.rest = session.state, session.state = State::running;
  return session;
}

Result<SessionRow> Sessions::end_work(const std::string& id, Move move, std::int64_t job, JobState state,
                                      const Json& result, const Json& detail) {
  KLAB_TRY(Transaction transaction, Transaction::begin(*db_));
  KLAB_TRY(SessionRow session, get(id));
  State to = session.rest;
  if (state == JobState::done) {
    KLAB_TRY(to, next(session.rest, move));
    if (to == State::running) to = State::idle;
  }
  KLAB_TRY(Statement s,
           db_->prepare("UPDATE sessions SET state = ?, rest = '' WHERE id = ? AND state = 'running'"));
  KLAB_TRY_VOID(s.bind(std::string_view(to_string(to))).bind(id).step());
  KLAB_TRY_VOID(end_job(job, state, result));
  KLAB_TRY_VOID(add_event(id, to_string(move), detail));
  KLAB_TRY_VOID(transaction.commit());
  session.state = to;
  return session;
}

Status Sessions::count_run(const std::string& id) {
  KLAB_TRY(
      Statement s,
      db_->prepare("UPDATE sessions SET runs = runs + 1 WHERE id = ? AND runs < max_runs RETURNING runs"));
  KLAB_TRY(const bool taken, s.bind(id).step());
  if (taken) {
    while (true) {
      KLAB_TRY(const bool more, s.step());
      if (!more) return {};
    }
  }
  KLAB_TRY(const SessionRow row, get(id));
  return fail(ErrorCode::cap_reached, fmt::format("session {} has had its {} runs", id, row.max_runs),
              "close it and open another, or raise max_runs in klab.toml; its results stay");
}

Status Sessions::add_event(const std::string& session, const std::string& kind, const Json& detail) {
  KLAB_TRY(Statement s, db_->prepare("INSERT INTO events(session, kind, at, detail) VALUES(?, ?, ?, ?)"));
  KLAB_TRY_VOID(s.bind(session).bind(kind).bind(utc_now()).bind(json_text(detail)).step());
  return {};
}

Result<std::vector<EventRow>> Sessions::events(const std::string& session, std::int64_t after,
                                               std::int64_t limit) {
  KLAB_TRY(Statement s,
           db_->prepare(fmt::format("SELECT id, session, kind, at, detail FROM events WHERE {} AND id > ? "
                                    "ORDER BY id LIMIT ?",
                                    session.empty() ? "? = ''" : "session = ?")));
  s.bind(session).bind(after).bind(limit);
  return read_all<EventRow>(s, [](const Statement& row) -> Result<EventRow> {
    EventRow e{row.integer(0), row.text(1), row.text(2), row.text(3), {}};
    KLAB_TRY(e.detail, parse_json(row.text(4), "stored event"));
    return e;
  });
}

Result<std::int64_t> Sessions::newest_event() {
  KLAB_TRY(Statement s, db_->prepare("SELECT COALESCE(MAX(id), 0) FROM events"));
  KLAB_TRY_VOID(s.step());
  return s.integer(0);
}

Result<std::int64_t> Sessions::add_job(const JobRow& row) {
  KLAB_TRY(Statement s,
           db_->prepare("INSERT INTO jobs(session, kind, state, pid, pid_start, log, request, result, "
                        "made_at, ended_at) VALUES(?, ?, ?, ?, ?, ?, ?, 'null', ?, '')"));
  s.bind(row.session).bind(row.kind).bind(std::string_view(to_string(row.state)));
  s.bind(static_cast<std::int64_t>(::getpid())).bind(static_cast<std::int64_t>(process_start(::getpid())));
  KLAB_TRY_VOID(s.bind(row.log).bind(json_text(row.request)).bind(utc_now()).step());
  return db_->last_id();
}

Status Sessions::start_job(std::int64_t id) {
  KLAB_TRY(Statement s,
           db_->prepare("UPDATE jobs SET state = 'running', pid = ?, pid_start = ? WHERE id = ?"));
  s.bind(static_cast<std::int64_t>(::getpid())).bind(static_cast<std::int64_t>(process_start(::getpid())));
  KLAB_TRY_VOID(s.bind(id).step());
  return {};
}

Status Sessions::end_job(std::int64_t id, JobState state, const Json& result) {
  KLAB_TRY(Statement s, db_->prepare("UPDATE jobs SET state = ?, packed = ?, ended_at = ? WHERE id = ?"));
  s.bind(std::string_view(to_string(state))).bind_blob(pack_json(result));
  KLAB_TRY_VOID(s.bind(utc_now()).bind(id).step());
  return {};
}

Result<JobRow> Sessions::job(std::int64_t id) {
  KLAB_TRY(Statement s, db_->prepare(fmt::format("SELECT {} FROM jobs WHERE id = ?", kJobColumns)));
  KLAB_TRY(const bool found, s.bind(id).step());
  if (!found) return fail(ErrorCode::not_found, fmt::format("there is no job {}", id));
  return read_job(s);
}

Status Sessions::set_job_log(std::int64_t id, const std::string& log) {
  KLAB_TRY(Statement s, db_->prepare("UPDATE jobs SET log = ? WHERE id = ?"));
  KLAB_TRY_VOID(s.bind(log).bind(id).step());
  return {};
}

Result<std::vector<JobRow>> Sessions::jobs(const std::string& session, std::int64_t limit) {
  KLAB_TRY(Statement s, db_->prepare(fmt::format(
                            "SELECT {} FROM jobs WHERE session = ? ORDER BY id DESC LIMIT ?", kJobColumns)));
  s.bind(session).bind(limit);
  return read_all<JobRow>(s, read_job);
}

Result<JobRow> Sessions::working_job(const std::string& session) {
  KLAB_TRY(Statement s,
           db_->prepare(fmt::format("SELECT {} FROM jobs WHERE session = ? AND state = 'running' LIMIT 1",
                                    kJobColumns)));
  KLAB_TRY(const bool found, s.bind(session).step());
  if (!found) return fail(ErrorCode::not_found, fmt::format("session {} runs no job", session));
  return read_job(s);
}

Result<int> Sessions::recover() {
  const auto dead = [&]() -> Result<std::vector<JobRow>> {
    KLAB_TRY(Statement s, db_->prepare(fmt::format("SELECT {} FROM jobs WHERE state IN ('queued', 'running')",
                                                   kJobColumns)));
    KLAB_TRY(std::vector<JobRow> open, read_all<JobRow>(s, read_job));
    std::erase_if(open, [](const JobRow& job) {
      return job.pid_start != 0 && process_start(job.pid) == job.pid_start;
    });
    return open;
  };
  const auto stuck = [&]() -> Result<std::vector<SessionRow>> {
    KLAB_TRY(Statement s, db_->prepare(fmt::format(
                              "SELECT {} FROM sessions WHERE state = 'running' AND NOT EXISTS (SELECT 1 FROM "
                              "jobs WHERE jobs.session = sessions.id AND jobs.state = 'running')",
                              kSessionColumns)));
    return read_all<SessionRow>(s, read_session);
  };
  {
    KLAB_TRY(const auto jobs, dead());
    KLAB_TRY(const auto sessions, stuck());
    if (jobs.empty() && sessions.empty()) return 0;
  }
  // Read again under the lock: another process may be recovering, or a job may just have ended.
  KLAB_TRY(Transaction transaction, Transaction::begin(*db_));
  KLAB_TRY(const std::vector<JobRow> jobs, dead());
  for (const JobRow& job : jobs) {
    KLAB_TRY_VOID(end_job(job.id, JobState::lost, nullptr));
    if (job.session.empty()) continue;
    KLAB_TRY_VOID(add_event(job.session, "lost", Json{{"job", job.id}, {"kind", job.kind}}));
  }
  KLAB_TRY(const std::vector<SessionRow> sessions, stuck());
  for (const SessionRow& row : sessions) {
    KLAB_TRY(Statement s, db_->prepare("UPDATE sessions SET state = ?, rest = '' WHERE id = ?"));
    KLAB_TRY_VOID(s.bind(std::string_view(to_string(row.rest))).bind(row.id).step());
  }
  KLAB_TRY_VOID(transaction.commit());
  return static_cast<int>(jobs.size());
}

Result<std::vector<SessionRow>> Sessions::closed_with_inputs() {
  KLAB_TRY(Statement s,
           db_->prepare(fmt::format("SELECT {} FROM sessions WHERE state = 'closed' AND owns_bundle = 1",
                                    kSessionColumns)));
  return read_all<SessionRow>(s, read_session);
}

}  // namespace klab::session
