// SPDX-License-Identifier: Apache-2.0
// Queues of the simulated GPU: one thread takes the packets of each.
#pragma once
#include <hsa/amd_hsa_queue.h>
#include <hsa/amd_hsa_signal.h>
#include <hsa/hsa.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "memory.h"

namespace sim {

inline constexpr u32 kComputeUnits = 4, kGlobalWaveSync = 64;

/// 100 MHz, as the runtime is told.
u64 gpu_clock();

struct Queue {
  u64 id = 0;
  u32 node = kFirstGpu;
  std::byte* ring = nullptr;
  u64 bytes = 0;
  volatile u64* doorbell = nullptr;  // ~0: never rung
  volatile u64* read_pointer = nullptr;
  u64 own_read = 0, own_write = 0;   // of a DMA queue: the runtime asks the thunk for them
  std::atomic<bool> stopping{false};
  std::thread thread;
};

/// Waits a little longer each time; packets come in bursts.
class Backoff {
 public:
  void reset() { turns_ = 0; }
  void wait() {
    if (++turns_ < 200)
      sched_yield();
    else
      usleep(turns_ < 5000 ? 20 : 200);
  }

 private:
  int turns_ = 0;
};

/// Why a queue was stopped, in the bits that the runtime's handler of its inactive signal knows.
enum class QueueError : u32 {
  invalid_dimension = 2,
  invalid_group_memory = 4,
  invalid_code = 8,
  invalid_format = 32,
  group_too_large = 64,
  illegal_instruction = 0x40000000,
  trap = 0x80000000,
};
struct QueueFailure {
  QueueError error;
};

/// Lowers the signal and wakes who waits for it. The signal may be gone as soon as it is lowered.
void complete(u64 handle, u64 started);
i64 signal_value(u64 handle);
/// Nothing of a failed queue goes on, but it can be destroyed.
void stay_stopped(const Queue& queue);

void run_aql(Queue& queue);
void run_dma(Queue& queue);

/// One kernel, from start to end. Throws MemoryFault, QueueFailure. Returns early when the queue is being destroyed.
void run_dispatch(const hsa_kernel_dispatch_packet_t& packet, u64 packet_address, u64 queue_address, const std::atomic<bool>& stopping);

}  // namespace sim
