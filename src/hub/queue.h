// SPDX-License-Identifier: Apache-2.0
// Who may use a device, and in which order: first come, first served, one at a time for each device.
// Not here: which device a request means (pool.h), and protection against other processes (the worker's
// lock).
#pragma once
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/error.h"

namespace klab::hub {

/// The order alone. A ticket of a key conflicts with those of equal key; one without a key with every other.
/// A ticket runs when no earlier one that is still there conflicts with it. Thread: one.
class Queue {
 public:
  using Id = std::uint64_t;
  struct Ticket {
    Id id = 0;
    std::string key;   // of a device; empty: any
    std::string what;  // for a person
  };
  Id add(std::string key, std::string what);
  void remove(Id id);
  bool runs(Id id) const { return place(id) == 0; }
  /// 0: it runs (or is not there); 1: it is next; n: n - 1 others that wait go before it.
  unsigned place(Id id) const;
  /// Oldest first.
  const std::list<Ticket>& tickets() const { return tickets_; }

 private:
  static bool conflict(const Ticket& a, const Ticket& b) {
    return a.key.empty() || b.key.empty() || a.key == b.key;
  }
  std::list<Ticket> tickets_;
  Id next_ = 1;
};

/// Queue for threads. Thread: any.
class DeviceQueue {
 public:
  using OnWait = std::function<void(unsigned place)>;
  /// A place at a device, given back on destruction.
  class Turn {
   public:
    Turn(DeviceQueue* queue, Queue::Id id) : queue_(queue), id_(id) {}
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn();

   private:
    DeviceQueue* queue_;
    Queue::Id id_;
  };

  /// Waits for a turn. `on_wait` hears the place when it changes. Errors: interrupted, when `cancelled` said
  /// so.
  Result<std::unique_ptr<Turn>> wait(const std::string& key, const std::string& what,
                                     const std::function<bool()>& cancelled, const OnWait& on_wait);
  struct Row {
    std::string key, what;
    unsigned place = 0;
  };
  std::vector<Row> rows();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Queue queue_;
};

}  // namespace klab::hub
