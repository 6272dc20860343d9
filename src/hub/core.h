// SPDX-License-Identifier: Apache-2.0
// The heart of the hub, without its socket: calls, jobs that outlive who started them, events. A front end
// that works alone has one of its own. Not here: what the verbs do (ops/), connections (server.h).
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <mutex>

#include "hub/client.h"
#include "hub/pool.h"
#include "hub/watch.h"

namespace klab::hub {

/// Thread: any; calls run at once, each on the thread that makes it.
class Core {
 public:
  explicit Core(Pool::Limits limits = {});
  ~Core();

  /// For whom the work is.
  struct Caller {
    std::string front_end = "cli";
    std::shared_ptr<const Variables> environment;  // null: ours
  };
  /// As Client::call, with the verbs that client.h lists, but for hub.stop.
  Result<Json> call(const std::string& verb, const Json& arguments, const Caller& caller,
                    const OnProgress& progress, const std::function<bool()>& cancelled);
  /// The devices, until the result is destroyed. Errors: interrupted.
  Result<std::unique_ptr<ops::Engines::Hold>> hold(const Caller& caller, const OnProgress& progress,
                                                   const std::function<bool()>& cancelled);

  /// Calls and jobs that work now.
  int at_work() const { return at_work_; }
  /// Refuses new work, stops what runs and waits for it. Twice is once.
  void stop();

 private:
  struct Job;
  Result<Json> run(const std::string& verb, const Json& arguments, const Caller& caller, std::int64_t job,
                   const OnProgress& progress, const std::function<bool()>& cancelled);
  Result<Json> start_job(const Json& arguments, const Caller& caller);
  Result<Json> wait_job(const Json& arguments, const std::function<bool()>& cancelled);
  Result<Json> cancel_job(const Json& arguments, const std::function<bool()>& cancelled);
  Result<Json> wait_events(const Json& arguments, const std::function<bool()>& cancelled);
  Json status();
  void work(const std::shared_ptr<Job>& job, const Caller& caller);

  const fs::path home_;
  Pool pool_;
  Watch watch_;
  std::atomic<int> at_work_{0};
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::int64_t, std::shared_ptr<Job>> jobs_;  // those that have not ended
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

}  // namespace klab::hub
