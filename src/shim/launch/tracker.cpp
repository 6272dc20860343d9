// SPDX-License-Identifier: Apache-2.0
#include "shim/launch/tracker.h"

#include <algorithm>
#include <new>

namespace klab::shim {

void Tracker::add(std::uint64_t begin, std::uint64_t size, std::uint32_t memory, const char* refusal,
                  const void* context) {
  Range r;
  r.begin = begin, r.size = size, r.memory = memory, r.refusal = refusal, r.context = context;
  add(r);
}

void Tracker::add(Range range) {
  if (range.begin == 0 || range.size == 0 || range.end() < range.begin) return;
  std::lock_guard hold(lock_);
  range.id = next_id_++;
  ranges_[range.begin] = range;
}

void Tracker::remove(std::uint64_t begin) {
  std::lock_guard hold(lock_);
  ranges_.erase(begin);
}

void Tracker::remove_host(std::uint64_t host) {
  std::lock_guard hold(lock_);
  for (auto it = ranges_.begin(); it != ranges_.end(); ++it)
    if (it->second.host == host) {
      ranges_.erase(it);
      return;
    }
}

void Tracker::context_destroyed(const void* context) {
  if (context == nullptr) return;
  std::lock_guard hold(lock_);
  for (auto it = ranges_.begin(); it != ranges_.end();)
    it = it->second.context == context ? ranges_.erase(it) : std::next(it);
}

void Tracker::created(std::uint64_t handle, bool host) {
  std::lock_guard hold(lock_);
  handles_[handle] = {host, false};
}

void Tracker::imported(std::uint64_t handle) {
  std::lock_guard hold(lock_);
  handles_[handle] = {false, true};
}

void Tracker::released(std::uint64_t handle) {
  std::lock_guard hold(lock_);
  handles_.erase(handle);
}

void Tracker::map(std::uint64_t begin, std::uint64_t size, std::uint64_t handle) {
  if (begin == 0 || size == 0 || begin + size < begin) return;
  std::lock_guard hold(lock_);
  Range r;
  r.begin = begin, r.size = size;
  r.id = next_id_++;
  r.mapped = true;
  r.accessible = false;  // until cuMemSetAccess
  if (const auto it = handles_.find(handle); it != handles_.end()) {
    if (it->second.host) r.memory = KLAB_MEMORY_PINNED_HOST;
    if (it->second.imported) r.refusal = "memory imported from another process (a shareable handle)";
  }
  ranges_[begin] = r;
}

void Tracker::unmap(std::uint64_t begin, std::uint64_t size) {
  std::lock_guard hold(lock_);
  for (auto it = ranges_.lower_bound(begin); it != ranges_.end() && it->first - begin < size;)
    it = it->second.mapped ? ranges_.erase(it) : std::next(it);
}

void Tracker::set_access(std::uint64_t begin, std::uint64_t size, bool accessible) {
  std::lock_guard hold(lock_);
  for (auto it = ranges_.lower_bound(begin); it != ranges_.end() && it->first - begin < size; ++it)
    if (it->second.mapped) it->second.accessible = accessible;
}

void Tracker::clear() {
  std::lock_guard hold(lock_);
  ranges_.clear();
  handles_.clear();
}

std::vector<Range> Tracker::ranges() const {
  std::lock_guard hold(lock_);
  std::vector<Range> all;
  all.reserve(ranges_.size());
  for (const auto& [begin, r] : ranges_) {
    if (!r.accessible) continue;
    if (!all.empty()) {
      Range& last = all.back();
      if (last.mapped && r.mapped && last.end() == r.begin && last.memory == r.memory &&
          last.refusal == r.refusal) {
        last.size += r.size;
        continue;
      }
      // Memory that was freed in a way that is not seen here, and given out again: the newer one is right.
      if (last.end() > r.begin) {
        if (last.id < r.id)
          all.pop_back();
        else
          continue;
      }
    }
    all.push_back(r);
  }
  return all;
}

void Tracker::after_fork() { new (&lock_) std::mutex; }

const Range* find_range(const std::vector<Range>& ranges, std::uint64_t address) {
  const auto it = std::upper_bound(ranges.begin(), ranges.end(), address,
                                   [](std::uint64_t a, const Range& r) { return a < r.begin; });
  if (it == ranges.begin()) return nullptr;
  const Range& r = *(it - 1);
  return address < r.end() ? &r : nullptr;
}

}  // namespace klab::shim
