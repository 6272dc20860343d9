// SPDX-License-Identifier: Apache-2.0
// Tells those who wait that the store has changed, whoever changed it: other processes are seen too.
#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "session/store.h"

namespace klab::hub {

/// One thread polls SQLite's data_version while anybody waits. Thread: any.
class Watch {
 public:
  explicit Watch(fs::path store) : file_(std::move(store)) {}
  ~Watch();

  /// What is written after its construction ends a wait(). Look at the store in between.
  class Waiter {
   public:
    explicit Waiter(Watch& watch);
    ~Waiter();
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;
    /// True when the store has changed since the last time (or construction); false at `deadline` or when
    /// cancelled.
    bool wait(std::chrono::steady_clock::time_point deadline, const std::function<bool()>& cancelled);

   private:
    Watch* watch_;
    std::uint64_t seen_;
  };

 private:
  void look();  // with mutex_ held
  void run();

  const fs::path file_;
  std::mutex mutex_;
  std::condition_variable changed_;  // the store, or who waits
  std::optional<session::Store> store_;
  std::int64_t version_ = 0;
  std::uint64_t generation_ = 0;
  int waiting_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace klab::hub
