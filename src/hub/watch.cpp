// SPDX-License-Identifier: Apache-2.0
#include "hub/watch.h"

namespace klab::hub {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kEvery{20};

Watch::~Watch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Watch::look() {
  if (!store_) {
    auto opened = session::Store::open(file_);
    if (!opened) return;
    store_.emplace(std::move(*opened));
    version_ = 0;
  }
  const auto now = store_->data_version();
  if (!now) {
    store_.reset();  // opened again next time
    return;
  }
  if (*now == version_) return;
  version_ = *now;
  ++generation_;
}

void Watch::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (waiting_ == 0) {
      changed_.wait(lock);
      continue;
    }
    const auto before = generation_;
    look();
    if (generation_ != before) changed_.notify_all();
    changed_.wait_for(lock, kEvery);
  }
}

Watch::Waiter::Waiter(Watch& watch) : watch_(&watch) {
  const std::lock_guard lock(watch.mutex_);
  if (!watch.thread_.joinable()) watch.thread_ = std::thread(&Watch::run, &watch);
  if (watch.waiting_++ == 0) {
    watch.look();
    watch.changed_.notify_all();
  }
  seen_ = watch.generation_;
}

Watch::Waiter::~Waiter() {
  const std::lock_guard lock(watch_->mutex_);
  --watch_->waiting_;
}

bool Watch::Waiter::wait(Clock::time_point deadline, const std::function<bool()>& cancelled) {
  std::unique_lock lock(watch_->mutex_);
  for (;;) {
    if (watch_->generation_ != seen_) {
      seen_ = watch_->generation_;
      return true;
    }
    lock.unlock();
    const bool stop = cancelled && cancelled();
    lock.lock();
    if (stop || watch_->stopping_ || Clock::now() >= deadline) return false;
    if (watch_->generation_ != seen_) continue;
    watch_->changed_.wait_until(lock, std::min(deadline, Clock::now() + std::chrono::milliseconds(100)));
  }
}

}  // namespace klab::hub
