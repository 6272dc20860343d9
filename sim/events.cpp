// SPDX-License-Identifier: Apache-2.0
#include "events.h"

#include <hsakmt.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>

#include "memory.h"

namespace sim {
namespace {

struct Event {
  HsaEvent handle{};  // first: the runtime's pointer is ours
  bool manual_reset = false, set = false;
};
Event& event_of(HsaEvent* handle) { return *reinterpret_cast<Event*>(handle); }

constexpr u32 kSlots = 4096;  // of the mailbox page

/// Never destroyed: a condition variable that is destroyed at exit hangs what still waits on it.
struct Events {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<u32, Event*> all;
  u32 next = 1;
  u64* mailboxes = nullptr;
};
Events& events() {
  static Events& one = *new Events;
  return one;
}

}  // namespace

void set_event(u32 id) {
  Events& e = events();
  const std::lock_guard lock(e.mutex);
  const auto it = e.all.find(id);
  if (it == e.all.end()) return;
  it->second->set = true;
  e.changed.notify_all();
}

void report_fault(u64 address, bool write) {
  log(1, "memory fault at %llx (%s)", static_cast<unsigned long long>(address), write ? "write" : "read");
  Events& e = events();
  const std::lock_guard lock(e.mutex);
  for (const auto& [id, event] : e.all) {
    if (event->handle.EventData.EventType != HSA_EVENTTYPE_MEMORY) continue;
    auto& fault = event->handle.EventData.EventData.MemoryAccessFault;
    std::memset(&fault, 0, sizeof fault);
    fault.NodeId = this_gpu();
    fault.VirtualAddress = address / 4096 * 4096;  // the hardware tells pages
    fault.Failure.NotPresent = 1;
    fault.Failure.ReadOnly = write;
    fault.Flags = HSA_EVENTID_MEMORY_FATAL_PROCESS;
    event->set = true;
  }
  e.changed.notify_all();
}

}  // namespace sim

using namespace sim;

extern "C" {

HSAKMT_STATUS hsaKmtCreateEvent(HsaEventDescriptor* descriptor, bool manual_reset, bool is_set, HsaEvent** out) {
  Events& e = events();
  const std::lock_guard lock(e.mutex);
  // The GPU writes the event's number there before it raises the interrupt; mapped for it (printf's kernels write it).
  if (e.mailboxes == nullptr) e.mailboxes = static_cast<u64*>(memory().own_page(kSlots * sizeof(u64)));
  auto* event = new Event;
  event->manual_reset = manual_reset;
  event->set = is_set;
  event->handle.EventId = e.next++;
  HsaEventData& data = event->handle.EventData;
  data.EventType = descriptor->EventType;
  data.EventData.SyncVar = descriptor->SyncVar;
  data.HWData1 = data.HWData3 = event->handle.EventId;
  data.HWData2 = reinterpret_cast<u64>(&e.mailboxes[event->handle.EventId % kSlots]);
  e.all[event->handle.EventId] = event;
  *out = &event->handle;
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtDestroyEvent(HsaEvent* handle) {
  Events& e = events();
  const std::lock_guard lock(e.mutex);
  e.all.erase(handle->EventId);  // its memory stays: a waiter may hold it still
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtSetEvent(HsaEvent* handle) {
  set_event(handle->EventId);
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtResetEvent(HsaEvent* handle) {
  const std::lock_guard lock(events().mutex);
  event_of(handle).set = false;
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtQueryEventState(HsaEvent* handle) {
  const std::lock_guard lock(events().mutex);
  return event_of(handle).set ? HSAKMT_STATUS_SUCCESS : HSAKMT_STATUS_WAIT_TIMEOUT;
}

HSAKMT_STATUS hsaKmtWaitOnMultipleEvents(HsaEvent* handles[], HSAuint32 count, bool all, HSAuint32 milliseconds) {
  Events& e = events();
  std::unique_lock lock(e.mutex);
  const auto ready = [&] {
    u32 set = 0;
    for (u32 i = 0; i < count; ++i) set += event_of(handles[i]).set;
    return all ? set == count : set > 0;
  };
  constexpr u32 kLongest = 3'600'000;  // "for ever", without an overflow of the clock
  if (!e.changed.wait_for(lock, std::chrono::milliseconds(std::min(milliseconds, kLongest)), ready)) return HSAKMT_STATUS_WAIT_TIMEOUT;
  for (u32 i = 0; i < count; ++i)
    if (Event& event = event_of(handles[i]); !event.manual_reset) event.set = false;
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtWaitOnEvent(HsaEvent* handle, HSAuint32 milliseconds) {
  return hsaKmtWaitOnMultipleEvents(&handle, 1, true, milliseconds);
}

}  // extern "C"
