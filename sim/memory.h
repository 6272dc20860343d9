// SPDX-License-Identifier: Apache-2.0
// Memory as the simulated GPU sees it: allocations, what is mapped for it, and where that lies in this process.
#pragma once
#include <hsakmttypes.h>

#include <atomic>
#include <map>
#include <mutex>
#include <optional>

#include "numbers.h"

namespace sim {

/// Node 0 is the CPU, the others are GPUs: KLAB_SIM_AGENTS of them, otherwise one.
inline constexpr u32 kCpuNode = 0, kFirstGpu = 1, kMostGpus = 4;
u32 gpu_count();
inline bool is_gpu(u32 node) { return node >= kFirstGpu && node < kFirstGpu + gpu_count(); }
/// The GPU whose queue this thread is. Its page tables are the ones that count.
u32& this_gpu();

/// An access that the GPU's page tables do not allow; ends the queue that made it.
struct MemoryFault {
  u64 address = 0;
  bool write = false;
};

struct Allocation {
  u64 address = 0, size = 0;
  HsaMemFlags flags{};
  u32 node = 0;
  HSA_POINTER_TYPE type = HSA_POINTER_ALLOCATED;
  void* user = nullptr;
  u32 mapped = 0;          // for which GPUs, a bit for each node
  std::byte* mirror = nullptr;  // where the bytes are, if not at the address: video memory that the CPU cannot reach, host memory of the program
  std::byte* cpu_address() const { return type == HSA_POINTER_REGISTERED_USER ? mirror : reinterpret_cast<std::byte*>(address); }
};

/// Apertures of this GPU; flat addresses with these upper halves are LDS and scratch.
inline constexpr u64 kLdsAperture = 0x1'0000'0000'0000, kScratchAperture = 0x2'0000'0000'0000;

/// Thread: any.
class Memory {
 public:
  /// A range of the address space that is all one allocation.
  struct Window {
    u64 low = 1, high = 0;
    std::ptrdiff_t to_host = 0;
    bool writable = false;
    u64 generation = 0;
    bool holds(u64 address, u64 size) const { return address >= low && size <= high - address && address < high; }
  };

  HSAKMT_STATUS allocate(u32 node, u64 size, HsaMemFlags flags, void** address);
  HSAKMT_STATUS release(void* address);
  HSAKMT_STATUS register_host(void* address, u64 size, HsaMemFlags flags);
  HSAKMT_STATUS unregister_host(void* address);
  /// `gpu_address`: where the GPU sees it, another address for registered host memory. May be null.
  /// `nodes`: a bit for each; 0: the GPU whose memory it is, all of them for host memory.
  HSAKMT_STATUS map(void* address, u32 nodes, u64* gpu_address);
  HSAKMT_STATUS unmap(void* address);
  HSAKMT_STATUS set_user(const void* address, void* user);
  std::optional<Allocation> find(const void* address);
  /// Kept for as long as the process lives, mapped for every GPU (event pages).
  void* own_page(u64 size);

  /// Changes whenever a window that was handed out may be wrong.
  u64 generation() const { return generation_.load(std::memory_order_acquire); }
  /// The allocation around `address`, if all `size` bytes are in it and mapped for this thread's GPU. Throws MemoryFault.
  Window window(u64 address, u64 size, bool write);
  /// Where `size` bytes lie in this process. Throws MemoryFault.
  std::byte* host(u64 address, u64 size, bool write);

 private:
  Allocation* around(u64 address);
  /// By an address of either side.
  Allocation* named(const void* address);
  std::mutex mutex_;
  std::map<u64, Allocation> allocations_;
  std::map<u64, u64> registered_;  // host addresses: where the GPU sees them
  std::atomic<u64> generation_{1};
  u64 next_reserved_ = 0x1'0000'0000;  // of the reserved aperture
  u64 video_used_[kMostGpus] = {};
};

/// Never destroyed: the runtime's threads outlive static destructors.
Memory& memory();

inline constexpr u64 kVideoMemory = 8ull << 30;
/// KLAB_SIM_LARGE_BAR: the CPU reaches video memory.
bool large_bar();

}  // namespace sim
