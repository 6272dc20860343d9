// SPDX-License-Identifier: Apache-2.0
// Warm workers and compilers, lent to one call at a time, each started with the environment of whom it works
// for. Not here: what a worker does (replay/worker.h), the order of the queue (queue.h).
#pragma once
#include <chrono>
#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <thread>

#include "base/environment.h"
#include "hub/queue.h"
#include "ops/lab.h"

namespace klab::hub {

/// What of an environment changes what a worker or compiler does: drivers, devices, toolkits, loaders,
/// languages. Equal fingerprints may share a process. Empty for null, which is our own environment.
std::string fingerprint(const Variables* environment);

/// Thread: any.
class Pool {
 public:
  struct Limits {
    double idle_s = 120;          // a worker that waits longer is ended: it holds device memory
    std::size_t on_a_device = 2;  // warm workers on one device, of all callers; one for each fingerprint
    std::size_t compilers = 0;    // at work at once, and warm; 0: one a core
    std::uint64_t log_cap = 64u << 20;
  };
  /// For whom a call or job works.
  struct Caller {
    std::shared_ptr<const Variables> environment;  // null: ours
    std::string what;                              // for a person: "replay of cli"
    bool inside_hold = false;                      // it has the devices already
    std::function<bool()> cancelled;
    std::function<void(unsigned place)> on_place;  // 0: the wait is over
    std::function<void()> on_device;               // its first work on a device begins
  };

  Pool(Limits limits, fs::path logs);
  ~Pool();
  std::unique_ptr<ops::Engines> engines(Caller caller);
  DeviceQueue& queue() { return queue_; }
  /// {workers: [{pid, device, state, doing, requests, idle_s, environment}], compilers: {at_work, warm},
  /// queue: [...]}
  Json status();

 private:
  using Clock = std::chrono::steady_clock;
  struct Slot {
    std::string fingerprint, device, doing;
    std::unique_ptr<replay::Worker> worker;
    bool busy = true;
    std::uint64_t requests = 0;
    Clock::time_point since;  // busy or idle
    std::string started_at;
  };
  struct CompilerSlot {
    std::string fingerprint;
    std::unique_ptr<compile::Compiler> compiler;
    bool busy = true;
    Clock::time_point since;
  };
  class PooledEngines;

  std::shared_ptr<Slot> take(const std::string& fingerprint, const std::string& device,
                             const std::string& doing);
  void give_back(const std::shared_ptr<Slot>& slot);
  /// Ends what waits on `device`; says whether there was any.
  bool end_idle(const std::string& device);
  Result<compile::Answer> compile(const std::string& fingerprint, const compile::Request& request,
                                  double limit_s, const std::function<bool()>& cancelled);
  std::string device_of(const std::string& fingerprint, const replay::Request& request);
  void learn(const std::string& fingerprint, const replay::Request& request, const replay::Answer& answer);
  void reap();

  const Limits limits_;
  const fs::path logs_;
  DeviceQueue queue_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<std::shared_ptr<Slot>> slots_;
  std::list<std::shared_ptr<CompilerSlot>> compilers_;
  std::map<std::string, std::string> devices_;  // how a request named one -> its key
  bool stopping_ = false;
  std::thread reaper_;
};

}  // namespace klab::hub
