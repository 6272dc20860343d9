// SPDX-License-Identifier: Apache-2.0
// One reader of the hub's events and jobs for all who listen: listeners cost no thread and no connection.
#pragma once
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "serve/api.h"

namespace klab::serve {

/// Called on the pump's threads; must not block. False: it has left.
using Listener = std::function<bool(const std::string& frame)>;

/// Frames of text/event-stream: "id", "event", "data". Thread: any.
class Pump {
 public:
  explicit Pump(Call call);
  ~Pump();
  Pump(const Pump&) = delete;
  Pump& operator=(const Pump&) = delete;

  /// The id of the newest event that there is.
  std::int64_t newest();
  /// From now on `listener` hears what comes; first, in this call, the events after `after` (at most a few thousand:
  /// further back it is told "reset" and asks for what it shows), and the jobs that run.
  void listen(std::int64_t after, Listener listener);

  static std::string frame(std::string_view event, const Json& data, std::int64_t id = 0);

 private:
  struct Heard {
    Listener listener;
    std::int64_t last = 0;  // id of the event it heard last
  };
  void read_events();
  void read_jobs();
  bool wanted(std::unique_lock<std::mutex>& lock);
  void tell(const std::string& frame);  // with mutex_

  const Call call_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Heard> listeners_;
  std::string jobs_;  // the frame that was sent last
  std::atomic<bool> stopping_{false};
  std::thread events_thread_, jobs_thread_;
};

}  // namespace klab::serve
