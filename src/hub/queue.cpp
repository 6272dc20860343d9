// SPDX-License-Identifier: Apache-2.0
#include "hub/queue.h"

#include <algorithm>
#include <chrono>

namespace klab::hub {

Queue::Id Queue::add(std::string key, std::string what) {
  tickets_.push_back({next_, std::move(key), std::move(what)});
  return next_++;
}

void Queue::remove(Id id) {
  tickets_.remove_if([id](const Ticket& t) { return t.id == id; });
}

unsigned Queue::place(Id id) const {
  const auto mine =
      std::find_if(tickets_.begin(), tickets_.end(), [id](const Ticket& t) { return t.id == id; });
  if (mine == tickets_.end()) return 0;
  bool free = true;
  unsigned waiting = 0;
  for (auto it = tickets_.begin(); it != mine; ++it) {
    if (!conflict(*it, *mine)) continue;
    free = false;
    const bool waits =
        std::any_of(tickets_.begin(), it, [it](const Ticket& earlier) { return conflict(earlier, *it); });
    waiting += waits ? 1 : 0;
  }
  return free ? 0 : waiting + 1;
}

DeviceQueue::Turn::~Turn() {
  {
    const std::lock_guard lock(queue_->mutex_);
    queue_->queue_.remove(id_);
  }
  queue_->changed_.notify_all();
}

Result<std::unique_ptr<DeviceQueue::Turn>> DeviceQueue::wait(const std::string& key, const std::string& what,
                                                             const std::function<bool()>& cancelled,
                                                             const OnWait& on_wait) {
  std::unique_lock lock(mutex_);
  const Queue::Id id = queue_.add(key, what);
  auto turn = std::make_unique<Turn>(this, id);
  unsigned told = 0;
  for (;;) {
    const unsigned place = queue_.place(id);
    if (place == 0) return turn;
    if (place != told || cancelled) {
      // Neither is ours: they may take time, and look at the queue.
      lock.unlock();
      if (place != told && on_wait) on_wait(place);
      told = place;
      if (cancelled && cancelled())
        return fail(ErrorCode::interrupted, "interrupted while it waited for the device; nothing was run");
      lock.lock();
      if (queue_.place(id) != place) continue;
    }
    changed_.wait_for(lock, std::chrono::milliseconds(20));
  }
}

std::vector<DeviceQueue::Row> DeviceQueue::rows() {
  const std::lock_guard lock(mutex_);
  std::vector<Row> rows;
  for (const Queue::Ticket& t : queue_.tickets()) rows.push_back({t.key, t.what, queue_.place(t.id)});
  return rows;
}

}  // namespace klab::hub
