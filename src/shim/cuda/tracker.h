// SPDX-License-Identifier: Apache-2.0
// Every piece of memory that a kernel of this process could be given a pointer to, by address.
// Not here: which of it a dispatch reaches (snapshot.h). No driver call is made under its lock.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "shim/abi/abi.h"

namespace klab::shim {

struct Range {
  std::uint64_t begin = 0, size = 0;
  std::uint32_t memory = KLAB_MEMORY_DEVICE;  // klab_memory
  std::uint64_t id = 0;                       // of the allocation, in order of creation
  const char* refusal = nullptr;              // why a dispatch that reaches it is refused
  bool mapped = false;                        // by cuMemMap: neighbours are one range to a pointer
  bool accessible = true;
  std::uint64_t end() const { return begin + size; }
};

/// Thread: any.
class Tracker {
 public:
  void add(std::uint64_t begin, std::uint64_t size, std::uint32_t memory, const char* refusal = nullptr);
  /// By any address that an allocation starts at; unknown ones are no news.
  void remove(std::uint64_t begin);

  // Virtual memory management: handles of physical memory, and where they are mapped.
  void created(std::uint64_t handle, bool host);
  void imported(std::uint64_t handle);
  void released(std::uint64_t handle);
  void map(std::uint64_t begin, std::uint64_t size, std::uint64_t handle);
  void unmap(std::uint64_t begin, std::uint64_t size);
  void set_access(std::uint64_t begin, std::uint64_t size, bool accessible);

  /// What is there now, ascending, none overlapping; mapped neighbours are merged, and what no device may access is
  /// left out.
  std::vector<Range> ranges() const;
  void after_fork();

 private:
  struct Handle {
    bool host = false, imported = false;
  };
  mutable std::mutex lock_;
  std::map<std::uint64_t, Range> ranges_;
  std::unordered_map<std::uint64_t, Handle> handles_;
  std::uint64_t next_id_ = 1;
};

/// The range of `ranges` (ascending) that holds `address`, or null.
const Range* find_range(const std::vector<Range>& ranges, std::uint64_t address);

}  // namespace klab::shim
