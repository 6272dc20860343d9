// SPDX-License-Identifier: Apache-2.0
#include "hub/core.h"

#include <unistd.h>

#include <thread>

#include <fmt/format.h>

#include "ops/api.h"
#include "ops/fields.h"
#include "ops/job_log.h"
#include "ops/session_files.h"
#include "ops/settings.h"

namespace klab::hub {
namespace {

using Clock = std::chrono::steady_clock;
using session::JobState;
constexpr double kLongestWait = 3600;
constexpr std::size_t kMostJobs = 256;

Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(
                            std::chrono::duration<double>(std::clamp(seconds, 0.0, kLongestWait)));
}

bool ended(JobState state) { return state != JobState::queued && state != JobState::running; }

Json progress_json(const Progress& p) {
  Json j{{"line", p.line}, {"done", p.done}, {"total", p.total}};
  if (p.place > 0) j["place"] = p.place;
  return j;
}

/// Counts work while it lives.
class AtWork {
 public:
  explicit AtWork(std::atomic<int>& n) : n_(n) { ++n_; }
  ~AtWork() { --n_; }
  AtWork(const AtWork&) = delete;

 private:
  std::atomic<int>& n_;
};

}  // namespace

struct Core::Job {
  std::int64_t id = 0;
  std::string verb, session;
  Json arguments;
  std::atomic<bool> cancelled{false};
  Progress progress;  // with mutex_
  bool over = false;  // with mutex_
};

Core::Core(Pool::Limits limits)
    : home_(klab_home()), pool_(limits, home_ / "logs"), watch_(home_ / "klab.sqlite") {}

Core::~Core() { stop(); }

void Core::stop() {
  stopping_ = true;
  std::unique_lock lock(mutex_);
  for (auto& [id, job] : jobs_) job->cancelled = true;
  changed_.notify_all();
  changed_.wait(lock, [&] { return jobs_.empty(); });
}

Result<Json> Core::call(const std::string& verb, const Json& arguments, const Caller& caller,
                        const OnProgress& progress, const std::function<bool()>& cancelled) {
  if (verb == "hub.status") return status();
  const auto stopped = [&] { return stopping_ || (cancelled && cancelled()); };
  if (verb == "job.wait") return wait_job(arguments, stopped);
  if (verb == "job.cancel") return cancel_job(arguments, stopped);
  if (verb == "events.wait") return wait_events(arguments, stopped);
  if (stopping_)
    return fail(ErrorCode::interrupted, "the hub is stopping", "run the command again: a new hub is started");
  if (verb == "job.start") return start_job(arguments, caller);
  const AtWork working(at_work_);
  return run(verb, arguments, caller, 0, progress, stopped);
}

Result<Json> Core::run(const std::string& verb, const Json& arguments, const Caller& caller, std::int64_t job,
                       const OnProgress& progress, const std::function<bool()>& cancelled) {
  const ScopedEnvironment scope(caller.environment);
  unsigned place = 0;
  const auto tell = [&](Progress p) {
    p.place = place;
    if (progress) progress(p);
  };
  ops::Lab lab(pool_.engines(
      {.environment = caller.environment,
       .what = fmt::format("{} of {}", verb, caller.front_end),
       .cancelled = cancelled,
       .on_place =
           [&](unsigned now) {
             place = now;
             if (now > 0)
               tell({fmt::format("waiting for the device: place {} in its queue", now), 0, 0, now});
           },
       .on_device = {}}));
  lab.front_end = caller.front_end;
  lab.job = job;
  if (caller.environment) lab.environment = *caller.environment;
  lab.cancelled = cancelled;
  lab.progress = [&](const std::string& line, std::uint64_t done, std::uint64_t total) {
    tell({line, done, total, 0});
  };
  return ops::call(lab, verb, arguments);
}

Result<std::unique_ptr<ops::Engines::Hold>> Core::hold(const Caller& caller, const OnProgress& progress,
                                                       const std::function<bool()>& cancelled) {
  struct Kept : ops::Engines::Hold {
    std::unique_ptr<ops::Engines> engines;  // lives as long as what it gave
    std::unique_ptr<ops::Engines::Hold> hold;
  };
  auto kept = std::make_unique<Kept>();
  const auto stopped = [this, cancelled] { return stopping_ || (cancelled && cancelled()); };
  kept->engines = pool_.engines({.environment = caller.environment,
                                 .what = "a program of " + caller.front_end,
                                 .cancelled = stopped,
                                 .on_place = {},
                                 .on_device = {}});
  KLAB_TRY(kept->hold, kept->engines->hold("a program of " + caller.front_end, stopped, [&](unsigned place) {
    if (progress)
      progress({fmt::format("waiting for the device: place {} in its queue", place), 0, 0, place});
  }));
  return std::unique_ptr<ops::Engines::Hold>(std::move(kept));
}

Result<Json> Core::start_job(const Json& arguments, const Caller& caller) {
  std::string verb, session;
  Json inner = Json::object();
  KLAB_TRY_VOID(ops::Fields(arguments, "job.start")
                    .need("verb", verb)
                    .take("arguments", inner)
                    .take("session", session)
                    .done());
  if (ops::find_verb(verb) == nullptr)
    return fail(ErrorCode::usage, fmt::format("there is no verb \"{}\"", verb.substr(0, 80)),
                "klab --help names them");
  KLAB_TRY(session::Store store, session::Store::open(home_ / "klab.sqlite"));
  if (!session.empty()) KLAB_TRY_VOID(store.sessions().get(session));
  auto job = std::make_shared<Job>();
  job->verb = verb, job->session = session, job->arguments = inner;
  std::unique_lock lock(mutex_);
  if (jobs_.size() >= kMostJobs)
    return fail(ErrorCode::cap_reached, fmt::format("{} jobs wait or run already", jobs_.size()),
                "wait for some of them");
  KLAB_TRY(job->id, store.sessions().add_job(
                        {.session = session, .kind = verb, .state = JobState::queued, .request = inner}));
  jobs_[job->id] = job;
  std::thread([this, job, caller] { work(job, caller); }).detach();
  return Json{{"job", job->id}};
}

void Core::work(const std::shared_ptr<Job>& job, const Caller& caller) {
  const AtWork working(at_work_);
  const auto progress = [&](const Progress& p) {
    std::lock_guard lock(mutex_);
    job->progress = p;
    changed_.notify_all();
  };
  const auto cancelled = [&] { return job->cancelled.load(); };
  auto store = session::Store::open(home_ / "klab.sqlite");
  if (store) {
    // Work outside a session has its log here; a session's verbs keep their own.
    const bool own_log = job->verb.rfind("session.", 0) != 0;
    const fs::path file = home_ / "jobs" / fmt::format("{}.log", job->id);
    std::optional<ops::JobLog> log;
    if (own_log) {
      log.emplace(file, ops::Settings{}.job_log_bytes);
      (void)store->sessions().set_job_log(job->id, file.string());
      (void)store->sessions().start_job(job->id);
    }
    std::string last;
    auto answer = run(
        job->verb, job->arguments, caller, job->id,
        [&](const Progress& p) {
          progress(p);
          if (log && p.line != last) log->line(last = p.line);
        },
        cancelled);
    // Verbs of a session end their job with the session's state; others, and those that were refused, here.
    const auto row = store->sessions().job(job->id);
    if (row && !ended(row->state)) {
      const JobState state = answer                                          ? JobState::done
                             : answer.error().code == ErrorCode::interrupted ? JobState::cancelled
                                                                             : JobState::failed;
      (void)store->sessions().end_job(job->id, state, answer ? *answer : Json{{"error", answer.error()}});
    }
  }
  std::lock_guard lock(mutex_);
  job->over = true;
  jobs_.erase(job->id);
  changed_.notify_all();
}

Result<Json> Core::wait_job(const Json& arguments, const std::function<bool()>& cancelled) {
  std::int64_t id = 0;
  double wait_s = 0;
  KLAB_TRY_VOID(ops::Fields(arguments, "job.wait").need("job", id).take("wait_s", wait_s).done());
  const auto deadline = after(wait_s);
  KLAB_TRY(session::Store store, session::Store::open(home_ / "klab.sqlite"));
  std::shared_ptr<Job> job;
  {
    std::unique_lock lock(mutex_);
    if (const auto found = jobs_.find(id); found != jobs_.end()) job = found->second;
    while (job && !job->over && Clock::now() < deadline && !cancelled())
      changed_.wait_until(lock, std::min(deadline, Clock::now() + std::chrono::milliseconds(100)));
  }
  if (!job) {  // of another process, or ended: the store knows
    Watch::Waiter waiter(watch_);
    for (;;) {
      KLAB_TRY(const session::JobRow row, store.sessions().job(id));
      if (ended(row.state) || !waiter.wait(deadline, cancelled)) return Json{{"job", row}};
    }
  }
  KLAB_TRY(const session::JobRow row, store.sessions().job(id));
  Json answer{{"job", row}};
  std::lock_guard lock(mutex_);
  if (!job->over) answer["progress"] = progress_json(job->progress);
  return answer;
}

Result<Json> Core::cancel_job(const Json& arguments, const std::function<bool()>& cancelled) {
  std::int64_t id = 0;
  KLAB_TRY_VOID(ops::Fields(arguments, "job.cancel").need("job", id).done());
  {
    std::unique_lock lock(mutex_);
    const auto found = jobs_.find(id);
    if (found != jobs_.end()) {
      const std::shared_ptr<Job> job = found->second;
      job->cancelled = true;
      while (!job->over && !cancelled()) changed_.wait_for(lock, std::chrono::milliseconds(50));
    }
  }
  KLAB_TRY(session::Store store, session::Store::open(home_ / "klab.sqlite"));
  KLAB_TRY(const session::JobRow row, store.sessions().job(id));
  if (!ended(row.state))
    return fail(ErrorCode::illegal_state,
                fmt::format("job {} is the work of another process ({})", id, row.pid),
                "stop it where it was started");
  return Json{{"job", row}};
}

Result<Json> Core::wait_events(const Json& arguments, const std::function<bool()>& cancelled) {
  std::string session;
  std::int64_t from = 0, limit = 200;
  double wait_s = 0;
  KLAB_TRY_VOID(ops::Fields(arguments, "events.wait")
                    .take("session", session)
                    .take("after", from)
                    .take("wait_s", wait_s)
                    .take("limit", limit)
                    .done());
  if (limit < 1 || limit > 1000) return fail(ErrorCode::usage, "events.wait: limit is from 1 to 1000");
  const auto deadline = after(wait_s);
  KLAB_TRY(session::Store store, session::Store::open(home_ / "klab.sqlite"));
  if (!session.empty()) KLAB_TRY_VOID(store.sessions().get(session));
  std::optional<Watch::Waiter> waiter;
  if (wait_s > 0) waiter.emplace(watch_);
  if (from < 0) {
    KLAB_TRY(from, store.sessions().newest_event());
  }
  for (;;) {
    KLAB_TRY(const auto events, store.sessions().events(session, from, limit));
    if (!events.empty() || !waiter || !waiter->wait(deadline, cancelled))
      return Json{{"events", events}, {"last", events.empty() ? from : events.back().id}};
  }
}

Json Core::status() {
  Json j = pool_.status();
  j["pid"] = ::getpid();
  j["home"] = home_.string();
  j["up_s"] = std::chrono::duration<double>(Clock::now() - started_).count();
  j["at_work"] = at_work_.load();
  Json jobs = Json::array();
  std::lock_guard lock(mutex_);
  for (const auto& [id, job] : jobs_)
    jobs.push_back({{"job", id},
                    {"verb", job->verb},
                    {"session", job->session},
                    {"progress", progress_json(job->progress)}});
  j["jobs"] = std::move(jobs);
  return j;
}

}  // namespace klab::hub
