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
  bool mapped = false;  // by cuMemMap, hsa_amd_vmem_map: neighbours are one range to a pointer
  bool accessible = true;
  const void* context = nullptr;
  std::uint64_t host = 0;   // HSA: where the CPU reads the same memory; 0: nowhere
  std::uint64_t agent = 0;  // HSA: whose memory it is; 0: pages of the program
  std::uint32_t flags = 0;  // HSA: of its pool
  std::uint64_t end() const { return begin + size; }
};

/// Thread: any.
class Tracker {
 public:
  /// `context`: with which the memory goes, however it is destroyed; null: with none.
  void add(std::uint64_t begin, std::uint64_t size, std::uint32_t memory, const char* refusal = nullptr,
           const void* context = nullptr);
  /// As it is, but for its id, which is given here.
  void add(Range range);
  void context_destroyed(const void* context);
  /// By any address that an allocation starts at; unknown ones are no news.
  void remove(std::uint64_t begin);
  /// Of memory that the CPU knows by another address.
  void remove_host(std::uint64_t host);

  // Virtual memory management: handles of physical memory, and where they are mapped.
  void created(std::uint64_t handle, bool host);
  void imported(std::uint64_t handle);
  void released(std::uint64_t handle);
  void map(std::uint64_t begin, std::uint64_t size, std::uint64_t handle);
  void unmap(std::uint64_t begin, std::uint64_t size);
  void set_access(std::uint64_t begin, std::uint64_t size, bool accessible);

  void clear();
  /// What is there now, ascending, none overlapping; mapped neighbours are merged, and what no device may
  /// access is left out.
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
