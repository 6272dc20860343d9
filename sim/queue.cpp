// SPDX-License-Identifier: Apache-2.0
// Creating and destroying queues, and the packets of compute queues (the HSA specification's AQL, and AMD's own).
#include "queue.h"

#include <hsa/hsa_ext_amd.h>
#include <hsakmt.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "events.h"

namespace sim {
namespace {

constexpr u64 kNeverRung = ~0ull;
constexpr std::size_t kPacketBytes = 64, kDoorbells = 1024;
enum AmdFormat : u8 { kBarrierValue = 2 };  // hsa_amd_packet_header_t

struct Queues {
  std::mutex mutex;
  std::map<u64, Queue*> all;
  u64 next = 1;
  volatile u64* doorbells = nullptr;  // the runtime tells queues by where their doorbells lie in this page
};
Queues& queues() {
  static Queues& one = *new Queues;
  return one;
}

amd_signal_t* signal_at(u64 handle) { return reinterpret_cast<amd_signal_t*>(handle); }

amd_queue_t* runtime_queue(const Queue& queue) {
  return reinterpret_cast<amd_queue_t*>(reinterpret_cast<u64>(queue.read_pointer) - offsetof(amd_queue_t, read_dispatch_id));
}

/// Changes a signal's value and raises its interrupt. The signal may be gone as soon as its value has changed.
template <class Change>
void signal(amd_signal_t* s, Change&& change) {
  const u64 mailbox = s->event_mailbox_ptr;
  const u32 event = s->event_id;
  change(s->value);
  if (mailbox == 0) return;
  *reinterpret_cast<volatile u64*>(mailbox) = event;
  set_event(event);
}

/// The queue's inactive signal says why; the runtime's handler calls the program's error callback.
void fail(const Queue& queue, QueueError error) {
  const u64 handle = runtime_queue(queue)->queue_inactive_signal.handle;
  if (handle == 0) stop("a queue failed that has nobody to tell");
  signal(signal_at(handle), [&](auto& value) { __atomic_store_n(&value, static_cast<i64>(static_cast<u32>(error)), __ATOMIC_RELEASE); });
}

void wait_for_signals(const hsa_barrier_and_packet_t& packet, bool all, const Queue& queue) {
  for (Backoff backoff; !queue.stopping; backoff.wait()) {
    u32 asked = 0, done = 0;
    for (const hsa_signal_t s : packet.dep_signal) {
      if (s.handle == 0) continue;
      ++asked;
      done += signal_value(s.handle) == 0;
    }
    if (asked == 0 || (all ? done == asked : done > 0)) return;
  }
}

void wait_for_value(const hsa_amd_barrier_value_packet_t& packet, const Queue& queue) {
  if (packet.signal.handle == 0) return;
  for (Backoff backoff; !queue.stopping; backoff.wait()) {
    const i64 value = signal_value(packet.signal.handle) & packet.mask;
    switch (packet.cond) {
      case HSA_SIGNAL_CONDITION_EQ: if (value == packet.value) return; break;
      case HSA_SIGNAL_CONDITION_NE: if (value != packet.value) return; break;
      case HSA_SIGNAL_CONDITION_LT: if (value < packet.value) return; break;
      default: if (value >= packet.value) return; break;
    }
  }
}

/// Packets run one after the other: that is what a set barrier bit asks for, and what hardware may do without it.
void take(const std::byte (&packet)[kPacketBytes], u64 address, const Queue& queue) {
  const auto as = [&]<class T>(T*) {
    static_assert(sizeof(T) == kPacketBytes);
    T t;
    std::memcpy(&t, packet, sizeof t);
    return t;
  };
  const auto header = static_cast<u16>(as(static_cast<hsa_barrier_and_packet_t*>(nullptr)).header);
  const u32 type = header & 0xff;
  log(1, "queue %llu: packet of type %u, header %04x", static_cast<unsigned long long>(queue.id), type, header);
  switch (type) {
    case HSA_PACKET_TYPE_KERNEL_DISPATCH:
      return run_dispatch(as(static_cast<hsa_kernel_dispatch_packet_t*>(nullptr)), address, reinterpret_cast<u64>(runtime_queue(queue)),
                          queue.stopping);
    case HSA_PACKET_TYPE_BARRIER_AND: return wait_for_signals(as(static_cast<hsa_barrier_and_packet_t*>(nullptr)), true, queue);
    case HSA_PACKET_TYPE_BARRIER_OR: return wait_for_signals(as(static_cast<hsa_barrier_and_packet_t*>(nullptr)), false, queue);
    case HSA_PACKET_TYPE_VENDOR_SPECIFIC:
      if (static_cast<u8>(packet[2]) == kBarrierValue) wait_for_value(as(static_cast<hsa_amd_barrier_value_packet_t*>(nullptr)), queue);
      return;  // else commands of the packet processor: invalidations of caches, of which there are none
    default: throw QueueFailure{QueueError::invalid_format};
  }
}

}  // namespace

i64 signal_value(u64 handle) { return __atomic_load_n(&signal_at(handle)->value, __ATOMIC_ACQUIRE); }

void complete(u64 handle, u64 started) {
  if (handle == 0) return;
  amd_signal_t* s = signal_at(handle);
  s->start_ts = started;
  s->end_ts = gpu_clock();
  signal(s, [](auto& value) { __atomic_fetch_sub(&value, 1, __ATOMIC_ACQ_REL); });
}

void stay_stopped(const Queue& queue) {
  while (!queue.stopping) usleep(1000);
}

void run_aql(Queue& queue) {
  Backoff backoff;
  u64 index = *queue.read_pointer;
  const u64 packets = queue.bytes / kPacketBytes;
  while (!queue.stopping) {
    std::byte* at = queue.ring + index % packets * kPacketBytes;
    auto* header = reinterpret_cast<u16*>(at);
    const u64 rung = *queue.doorbell;
    if (rung == kNeverRung || index > rung || (__atomic_load_n(header, __ATOMIC_ACQUIRE) & 0xff) == HSA_PACKET_TYPE_INVALID) {
      backoff.wait();
      continue;
    }
    backoff.reset();
    std::byte packet[kPacketBytes];
    std::memcpy(packet, at, sizeof packet);
    u64 completion = 0;
    std::memcpy(&completion, packet + 56, sizeof completion);  // of every kind of packet
    const u64 started = gpu_clock();
    try {
      take(packet, reinterpret_cast<u64>(at), queue);
    } catch (const MemoryFault& fault) {
      report_fault(fault.address, fault.write);
      return stay_stopped(queue);
    } catch (const QueueFailure& failure) {
      fail(queue, failure.error);
      return stay_stopped(queue);
    }
    if (queue.stopping) return;
    __atomic_store_n(header, static_cast<u16>(HSA_PACKET_TYPE_INVALID), __ATOMIC_RELEASE);
    ++index;
    __atomic_store_n(queue.read_pointer, index, __ATOMIC_RELEASE);
    complete(completion, started);
  }
}

}  // namespace sim

using namespace sim;

extern "C" {

HSAKMT_STATUS hsaKmtCreateQueue(HSAuint32 node, HSA_QUEUE_TYPE type, HSAuint32, HSA_QUEUE_PRIORITY, void* ring, HSAuint64 bytes, HsaEvent*,
                                HsaQueueResource* resource) {
  if (!is_gpu(node) || ring == nullptr) return HSAKMT_STATUS_INVALID_PARAMETER;
  const bool aql = type == HSA_QUEUE_COMPUTE_AQL;
  if (!aql && type != HSA_QUEUE_SDMA && type != HSA_QUEUE_SDMA_XGMI) return HSAKMT_STATUS_NOT_SUPPORTED;
  Queues& all = queues();
  const std::lock_guard lock(all.mutex);
  if (all.doorbells == nullptr) all.doorbells = static_cast<u64*>(std::aligned_alloc(kDoorbells * 8, kDoorbells * 8));
  if (all.all.size() >= kDoorbells - 1) return HSAKMT_STATUS_NO_MEMORY;
  auto* q = new Queue;
  do q->doorbell = &all.doorbells[all.next++ % kDoorbells];
  while (std::any_of(all.all.begin(), all.all.end(), [&](const auto& other) { return other.second->doorbell == q->doorbell; }));
  q->id = all.next - 1;
  q->node = node;
  q->ring = static_cast<std::byte*>(ring);
  q->bytes = bytes;
  *q->doorbell = kNeverRung;  // the first packet rings with 0
  if (aql) {
    q->read_pointer = resource->Queue_read_ptr_aql;
  } else {
    q->read_pointer = &q->own_read;
    resource->Queue_read_ptr_aql = &q->own_read;
    resource->Queue_write_ptr_aql = &q->own_write;
  }
  resource->QueueId = q->id;
  resource->Queue_DoorBell_aql = const_cast<u64*>(q->doorbell);
  q->thread = std::thread([q, aql] {
    this_gpu() = q->node;
    aql ? run_aql(*q) : run_dma(*q);
  });
  all.all[q->id] = q;
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtUpdateQueue(HSA_QUEUEID, HSAuint32, HSA_QUEUE_PRIORITY, void*, HSAuint64, HsaEvent*) { return HSAKMT_STATUS_SUCCESS; }
HSAKMT_STATUS hsaKmtSetQueueCUMask(HSA_QUEUEID, HSAuint32, HSAuint32*) { return HSAKMT_STATUS_SUCCESS; }

HSAKMT_STATUS hsaKmtDestroyQueue(HSA_QUEUEID id) {
  Queues& all = queues();
  Queue* q = nullptr;
  {
    const std::lock_guard lock(all.mutex);
    const auto it = all.all.find(id);
    if (it == all.all.end()) return HSAKMT_STATUS_INVALID_HANDLE;
    q = it->second;
    all.all.erase(it);
  }
  q->stopping = true;
  q->thread.join();
  return HSAKMT_STATUS_SUCCESS;  // the pointers of a DMA queue may be read still: it is not freed
}

HSAKMT_STATUS hsaKmtAllocQueueGWS(HSA_QUEUEID, HSAuint32 count, HSAuint32* first) {
  if (count > kGlobalWaveSync) return HSAKMT_STATUS_OUT_OF_RESOURCES;
  *first = 0;
  return HSAKMT_STATUS_SUCCESS;
}

}  // extern "C"
