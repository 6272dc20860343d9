// SPDX-License-Identifier: Apache-2.0
#include "session/sessions.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/ids.h"

namespace klab::session {
namespace {

constexpr std::string_view kSessionColumns =
    "id, name, made_by, state, program, working_folder, roots, dispatch, bundle, bundle_path, owns_bundle, "
    "max_runs, runs, made_at, closed_at";
constexpr std::string_view kJobColumns =
    "id, session, kind, state, pid, pid_start, log, request, result, made_at, ended_at";

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
  KLAB_TRY(v.result, parse_json(s.text(8), "stored result"));
  v.made_at = s.text(9), v.ended_at = s.text(10);
  return v;
}

template <class Row, class Read>
Result<std::vector<Row>> read_all(Statement& s, Read read) {
  std::vector<Row> rows;
  for (;;) {
    KLAB_TRY(const bool more, s.step());
    if (!more) return rows;
    KLAB_TRY(Row row, read(s));
    rows.push_back(std::move(row));
  }
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
    if (!(rest >> field)) return 0;
  return std::strtoull(field.c_str(), nullptr, 10);
}

Result<SessionRow> Sessions::open(SessionRow row) {
  if (row.id.empty()) row.id = "s" + new_id(7);
  row.made_at = utc_now();
  KLAB_TRY(Transaction transaction, Transaction::begin(*db_));
  KLAB_TRY(Statement s, db_->prepare(fmt::format(
                            "INSERT INTO sessions({}) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                            kSessionColumns)));
  s.bind(row.id).bind(row.name).bind(row.made_by).bind(std::string_view(to_string(row.state)));
  s.bind(Json(row.program).dump()).bind(row.working_folder).bind(Json(row.roots).dump());
  s.bind(row.dispatch.dump()).bind(row.bundle).bind(row.bundle_path).bind(std::int64_t{row.owns_bundle});
  s.bind(row.max_runs).bind(row.runs).bind(row.made_at).bind(row.closed_at);
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
                   "bundle = ?, bundle_path = ?, owns_bundle = ?, max_runs = ? WHERE id = ?"));
  s.bind(row.name).bind(Json(row.program).dump()).bind(row.working_folder).bind(Json(row.roots).dump());
  s.bind(row.dispatch.dump()).bind(row.bundle).bind(row.bundle_path).bind(std::int64_t{row.owns_bundle});
  KLAB_TRY_VOID(s.bind(row.max_runs).bind(row.id).step());
  return {};
}

Result<SessionRow> Sessions::move(const std::string& id, Move move, const Json& detail) {
  KLAB_TRY(Transaction transaction, Transaction::begin(*db_));
  KLAB_TRY(SessionRow row, get(id));
  KLAB_TRY(row.state, next(row.state, move));
  if (row.state == State::closed) row.closed_at = utc_now();
  KLAB_TRY(Statement s, db_->prepare("UPDATE sessions SET state = ?, closed_at = ? WHERE id = ?"));
  KLAB_TRY_VOID(s.bind(std::string_view(to_string(row.state))).bind(row.closed_at).bind(id).step());
  KLAB_TRY_VOID(add_event(id, to_string(move), detail));
  KLAB_TRY_VOID(transaction.commit());
  return row;
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
  KLAB_TRY_VOID(s.bind(session).bind(kind).bind(utc_now()).bind(detail.dump()).step());
  return {};
}

Result<std::vector<EventRow>> Sessions::events(const std::string& session, std::int64_t after,
                                               std::int64_t limit) {
  KLAB_TRY(Statement s,
           db_->prepare("SELECT id, session, kind, at, detail FROM events WHERE session = ? AND id > ? "
                        "ORDER BY id LIMIT ?"));
  s.bind(session).bind(after).bind(limit);
  return read_all<EventRow>(s, [](const Statement& row) -> Result<EventRow> {
    EventRow e{row.integer(0), row.text(1), row.text(2), row.text(3), {}};
    KLAB_TRY(e.detail, parse_json(row.text(4), "stored event"));
    return e;
  });
}

Result<std::int64_t> Sessions::add_job(const JobRow& row) {
  KLAB_TRY(Statement s,
           db_->prepare("INSERT INTO jobs(session, kind, state, pid, pid_start, log, request, result, "
                        "made_at, ended_at) VALUES(?, ?, ?, ?, ?, ?, ?, 'null', ?, '')"));
  s.bind(row.session).bind(row.kind).bind(std::string_view(to_string(row.state)));
  s.bind(static_cast<std::int64_t>(::getpid())).bind(static_cast<std::int64_t>(process_start(::getpid())));
  KLAB_TRY_VOID(s.bind(row.log).bind(row.request.dump()).bind(utc_now()).step());
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
  KLAB_TRY(Statement s, db_->prepare("UPDATE jobs SET state = ?, result = ?, ended_at = ? WHERE id = ?"));
  KLAB_TRY_VOID(
      s.bind(std::string_view(to_string(state))).bind(result.dump()).bind(utc_now()).bind(id).step());
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

Result<int> Sessions::recover() {
  KLAB_TRY(Transaction transaction, Transaction::begin(*db_));
  std::vector<JobRow> open;
  {
    KLAB_TRY(Statement s, db_->prepare(fmt::format("SELECT {} FROM jobs WHERE state IN ('queued', 'running')",
                                                   kJobColumns)));
    KLAB_TRY(open, read_all<JobRow>(s, read_job));
  }
  int lost = 0;
  for (const JobRow& job : open) {
    if (job.pid_start != 0 && process_start(job.pid) == job.pid_start) continue;
    KLAB_TRY_VOID(end_job(job.id, JobState::lost, nullptr));
    ++lost;
    if (job.session.empty()) continue;
    KLAB_TRY(Statement s,
             db_->prepare("UPDATE sessions SET state = CASE WHEN runs > 0 THEN 'idle' ELSE 'captured' END "
                          "WHERE id = ? AND state = 'running'"));
    KLAB_TRY_VOID(s.bind(job.session).step());
    KLAB_TRY_VOID(add_event(job.session, "lost", Json{{"job", job.id}, {"kind", job.kind}}));
  }
  KLAB_TRY_VOID(transaction.commit());
  return lost;
}

}  // namespace klab::session
