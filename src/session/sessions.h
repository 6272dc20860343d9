// SPDX-License-Identifier: Apache-2.0
// Sessions and their jobs in the store: state, caps, what happened in order, and recovery after a crash.
// Not here: bundles, variants, runs, verdicts (store.h); what a job does (ops/).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "session/sqlite.h"
#include "session/state.h"

namespace klab::session {

inline constexpr std::int64_t kDefaultMaxRuns = 1000;

struct SessionRow {
  std::string id;       // "s" and 7 characters
  std::string name;     // for a person
  std::string made_by;  // "cli", "mcp", "page"
  State state = State::opened;
  std::vector<std::string> program;  // the command that the user allowed to be run; empty: none
  std::string working_folder;
  std::vector<std::string> roots;  // folders that the session may read and write under
  Json dispatch;                   // what was selected of a dispatch list: name, nth, grid
  std::string bundle;              // BundleRow::id once captured
  std::string bundle_path;
  bool owns_bundle = false;  // made by this session: deleted when it closes
  std::int64_t max_runs = kDefaultMaxRuns;
  std::int64_t runs = 0;  // so far
  std::string made_at, closed_at;
  State rest = State::opened;  // while running: where it came from, and goes back to when the work fails
  Json source;  // {file, options}: selected before there was a bundle to note it with; else null
  Json settings =
      Json::object();  // as they were when it was opened: caps, environment, allow_save (ops/settings.h)
};
void to_json(Json& j, const SessionRow& v);

enum class JobState { queued, running, done, failed, cancelled, lost };
KLAB_JSON_ENUM(JobState, queued, running, done, failed, cancelled, lost)

struct JobRow {
  std::int64_t id = 0;
  std::string session;  // may be empty: work outside any session
  std::string kind;     // "capture", "run", "compare", ...
  JobState state = JobState::queued;
  std::int64_t pid = 0;         // of the process that works on it
  std::uint64_t pid_start = 0;  // its start time in clock ticks since boot: a pid comes again
  std::string log;              // its file
  Json request, result;
  std::string made_at, ended_at;
};
void to_json(Json& j, const JobRow& v);

struct EventRow {
  std::int64_t id = 0;  // ascending over all sessions
  std::string session, kind, at;
  Json detail;
};
void to_json(Json& j, const EventRow& v);

/// Over the store's database. Thread: one; several processes may use one store.
class Sessions {
 public:
  explicit Sessions(Database& db) : db_(&db) {}

  Result<SessionRow> open(SessionRow row);
  /// Errors: not_found, naming the newest that are there.
  Result<SessionRow> get(const std::string& id);
  Result<std::vector<SessionRow>> list(bool closed_too = false, std::int64_t limit = 200);
  /// Writes everything but state, runs and times.
  Status update(const SessionRow& row);
  /// One step of the state table, and an event of it. Errors: illegal_state, not_found.
  Result<SessionRow> move(const std::string& id, Move move, const Json& detail = Json::object());
  /// Work begins (row.log is the folder that its log lies in, as JOB.log): the session is `running` and the
  /// job, made when `job` is 0, is this process's; both or neither. Errors: illegal_state (naming what runs
  /// and its job, or what `move` needs), not_found.
  Result<SessionRow> begin_work(const std::string& id, Move move, std::int64_t& job, const JobRow& row);
  /// Work ended: the session is where `move` leads (JobState::done) or where it came from (any other), the
  /// job has its result, and there is an event; all or nothing.
  Result<SessionRow> end_work(const std::string& id, Move move, std::int64_t job, JobState state,
                              const Json& result, const Json& detail);
  /// Takes one of the session's runs. Errors: cap_reached at max_runs, with what to do.
  Status count_run(const std::string& id);

  Status add_event(const std::string& session, const std::string& kind, const Json& detail);
  /// Those after `after`, oldest first; of all sessions when `session` is empty.
  Result<std::vector<EventRow>> events(const std::string& session, std::int64_t after,
                                       std::int64_t limit = 1000);
  /// Its id, of all sessions; 0: none yet.
  Result<std::int64_t> newest_event();

  Result<std::int64_t> add_job(const JobRow& row);
  /// The work begins in this process.
  Status start_job(std::int64_t id);
  Status end_job(std::int64_t id, JobState state, const Json& result);
  Result<JobRow> job(std::int64_t id);
  Status set_job_log(std::int64_t id, const std::string& log);
  Result<std::vector<JobRow>> jobs(const std::string& session, std::int64_t limit = 200);
  /// The job that a session which is `running` runs. Errors: not_found.
  Result<JobRow> working_job(const std::string& session);
  /// Jobs whose process is gone become `lost`, and a session that was running one goes back to where it came
  /// from. Nothing else is touched; when there is nothing to do, nothing is locked. Returns how many.
  Result<int> recover();
  /// Closed sessions whose captured inputs are still to be deleted (closing was cut short).
  Result<std::vector<SessionRow>> closed_with_inputs();

 private:
  Database* db_;
};

/// Start time of a process in clock ticks since boot (/proc/PID/stat, field 22); 0: there is no such process,
/// or it has ended and nobody has waited for it.
std::uint64_t process_start(std::int64_t pid);

}  // namespace klab::session
