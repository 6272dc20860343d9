// SPDX-License-Identifier: Apache-2.0
// Parts of this process's address space that are kept for captured addresses (CPU drivers).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "gpu/backend.h"

namespace klab::gpu::vulkan {

/// Page-rounded, sorted and merged: ranges that touch become one. Ranges that wrap or are empty are left out.
std::vector<AddressRange> merge_pages(std::vector<AddressRange> ranges, std::uint64_t page);

class HostRanges {
 public:
  HostRanges() = default;
  HostRanges(const HostRanges&) = delete;
  HostRanges& operator=(const HostRanges&) = delete;
  ~HostRanges();

  /// Reserves what is free of `ranges`; what is taken stays so and is found out by claim().
  void hold(std::span<const AddressRange> ranges);
  /// Holds a range that nobody has yet; false when somebody does.
  bool hold_free(AddressRange range);
  /// Makes a page-aligned range readable and writable memory. Errors: address_collision, out_of_memory.
  Result<std::byte*> claim(AddressRange range);
  /// Gives the memory back and keeps the addresses reserved, so that a later claim succeeds.
  void unclaim(AddressRange range);
  void release_held();

 private:
  void forget(AddressRange range);
  std::vector<AddressRange> held_;
};

}  // namespace klab::gpu::vulkan
