// SPDX-License-Identifier: Apache-2.0
// Memory of a GPU or of the host at a wanted virtual address. Three ways, the first that this runtime has:
// hsa_amd_vmem_* (ROCm 6); the thunk's FixedAddress (where its address space is reserved); and the thunk's ordinary
// allocation while mmap answers its reservation with the wanted address (own_mmap.cpp).
// Not here: which ranges are wanted (memory.cpp).
#pragma once
#include <memory>
#include <string>

#include "gpu/backend.h"
#include "gpu/hip/runtime.h"

namespace klab::gpu::hip {

struct FixedRange {
  AddressRange range;
  bool host = false;
  VmemHandle handle{};  // of the first way
};

class FixedAddresses {
 public:
  struct Where {
    hsa_agent_t agent{}, cpu{};
    std::uint32_t node = 0, cpu_node = 0;
    hsa_amd_memory_pool_t device{}, host{};
  };
  FixedAddresses(const Runtime& runtime, Where where) : runtime_(runtime), where_(where) {}

  /// Which ways there are, for Abilities::fixed_addresses_by; empty: none.
  static std::string ways(const Runtime& runtime);

  /// Page-aligned memory, mapped for the GPU, and for the host when `host`. `flags`: the captured pool's
  /// hsa_amd_memory_pool_global_flag_t. Errors: address_collision, out_of_memory.
  Result<FixedRange> allocate(AddressRange range, bool host, std::uint32_t flags);
  void release(const FixedRange& range);

 private:
  Result<FixedRange> by_vmem(AddressRange range, bool host);
  Result<FixedRange> by_thunk(AddressRange range, bool host, std::uint32_t flags);

  const Runtime& runtime_;
  Where where_;
};

/// While it lives, this thread's next mmap that reserves address space anywhere gets [address, +size) or fails.
/// Works only in programs that export own_mmap.cpp's mmap; `works()` finds out.
class GuidedReservation {
 public:
  GuidedReservation(std::uint64_t address, std::uint64_t size);
  ~GuidedReservation();
  GuidedReservation(const GuidedReservation&) = delete;
  GuidedReservation& operator=(const GuidedReservation&) = delete;
  static bool works();
};

}  // namespace klab::gpu::hip
