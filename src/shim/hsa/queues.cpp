// SPDX-License-Identifier: Apache-2.0
#include "shim/hsa/queues.h"

#include <dlfcn.h>

#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "shim/common/link.h"
#include "shim/hsa/agents.h"
#include "shim/hsa/capture.h"
#include "shim/hsa/copies.h"
#include "shim/hsa/gate.h"
#include "shim/hsa/trace.h"
#include "shim/launch/kernels.h"
#include "shim/launch/pause.h"

namespace klab::shim {
namespace {

constexpr std::int64_t kCounterStart = 1ll << 62;

struct Queues {
  std::mutex lock;
  std::map<const hsa_queue_t*, std::shared_ptr<Queue>> all;
  std::uint32_t made = 0;
};
Queues& queues() {
  static Queues* const the = new Queues;
  return *the;
}

std::int64_t load(hsa_signal_t signal) { return api().core.hsa_signal_load_scacquire_fn(signal); }

hsa_signal_t make_signal(std::int64_t value) {
  hsa_signal_t signal{};
  // Without interrupts: it is polled, and goes down thousands of times.
  if (api().amd.hsa_amd_signal_create_fn != nullptr &&
      api().amd.hsa_amd_signal_create_fn(value, 0, nullptr, HSA_AMD_SIGNAL_AMD_GPU_ONLY, &signal) ==
          HSA_STATUS_SUCCESS)
    return signal;
  if (api().core.hsa_signal_create_fn(value, 0, nullptr, &signal) != HSA_STATUS_SUCCESS) return {};
  return signal;
}

void on_packets(const void* packets, std::uint64_t count, std::uint64_t, void* data, Writer write) {
  Queue& queue = *static_cast<Queue*>(data);
  const auto* first = static_cast<const Packet*>(packets);
  const Gate::Pass pass(gate());
  switch (link().live() ? link().config().mode : static_cast<std::uint32_t>(KLAB_MODE_NONE)) {
    case KLAB_MODE_CAPTURE:
      return capture_packets(queue, first, count, write);
    case KLAB_MODE_TRACE:
      return trace_packets(queue, first, count, write);
    default:
      return write(packets, count);
  }
}

// Makes every packet of the queue pass here, if it can be.
bool listen(hsa_queue_t* handle, const std::shared_ptr<Queue>& queue) {
  if (api().amd.hsa_amd_queue_intercept_register_fn(handle, on_packets, queue.get()) != HSA_STATUS_SUCCESS)
    return false;
  api().amd.hsa_amd_profiling_set_profiler_enabled_fn(handle, 1);  // times in completion signals
  std::lock_guard hold(queues().lock);
  queues().all[handle] = queue;
  return true;
}

std::shared_ptr<Queue> new_queue(hsa_agent_t agent, bool cooperative) {
  auto queue = std::make_shared<Queue>();
  queue->agent = agent;
  queue->cooperative = cooperative;
  queue->counter = make_signal(kCounterStart);
  std::lock_guard hold(queues().lock);
  queue->number = queues().made++;
  return queue;
}

void drop_counter(Queue& queue) {
  if (queue.counter.handle != 0) api().core.hsa_signal_destroy_fn(queue.counter);
  queue.counter = {};
}

// Another tool put its own function in, whose queues may be interceptable already.
bool others_create() {
  Dl_info create{}, runtime{};
  return ::dladdr(reinterpret_cast<void*>(api().core.hsa_queue_create_fn), &create) != 0 &&
         ::dladdr(reinterpret_cast<void*>(api().core.hsa_status_string_fn), &runtime) != 0 &&
         create.dli_fbase != runtime.dli_fbase;
}

hsa_status_t queue_create(hsa_agent_t agent, std::uint32_t size, hsa_queue_type32_t type,
                          void (*callback)(hsa_status_t, hsa_queue_t*, void*), void* data,
                          std::uint32_t private_bytes, std::uint32_t group_bytes, hsa_queue_t** handle) {
  const auto plain = [&] {
    return api().core.hsa_queue_create_fn(agent, size, type, callback, data, private_bytes, group_bytes,
                                          handle);
  };
  if (handle == nullptr || !link().live()) return plain();
  try {
    announce_agent(agent);
    const auto queue = new_queue(agent, type == HSA_QUEUE_TYPE_COOPERATIVE);
    if (others_create()) {
      const hsa_status_t status = plain();
      if (status != HSA_STATUS_SUCCESS || listen(*handle, queue)) return status;
      api().core.hsa_queue_destroy_fn(*handle);
    }
    const hsa_status_t status = api().amd.hsa_amd_queue_intercept_create_fn(
        agent, size, type, callback, data, private_bytes, group_bytes, handle);
    if (status == HSA_STATUS_SUCCESS) {
      if (!listen(*handle, queue)) note("a queue of the program", "is not seen: it cannot be intercepted");
      return status;
    }
    drop_counter(*queue);
    note("a queue of the program", "is not seen: " + failed("hsa_amd_queue_intercept_create", status));
  } catch (const std::exception& e) {
    log("%s; a queue is not seen", e.what());
  }
  return plain();
}

hsa_status_t queue_destroy(hsa_queue_t* handle) {
  std::shared_ptr<Queue> queue;
  {
    const Gate::Pass pass(gate());
    std::lock_guard hold(queues().lock);
    if (const auto it = queues().all.find(handle); it != queues().all.end()) {
      queue = it->second;
      queues().all.erase(it);
    }
  }
  const hsa_status_t status = api().core.hsa_queue_destroy_fn(handle);
  if (queue) drop_counter(*queue);
  return status;
}

// The runtime tells of its own queues, for its copies and fills; versions up to now do not let them be
// intercepted.
void on_runtime_queue(const hsa_queue_t* handle, hsa_agent_t agent, void*) {
  try {
    const auto queue = new_queue(agent, false);
    if (!listen(const_cast<hsa_queue_t*>(handle), queue)) drop_counter(*queue);
  } catch (const std::exception& e) {
    log("%s", e.what());
  }
}

}  // namespace

void forward(Queue& queue, const Packet* packets, std::uint64_t count, Writer write) {
  if (count == 0) return;
  if (queue.counter.handle == 0 || counts().finished.load(std::memory_order_relaxed))
    return write(packets, count);
  thread_local std::vector<Packet> out;
  out.clear();
  std::int64_t dispatches = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    Packet p = packets[i];
    if (completion_of(p).handle != 0) copies().used_again(completion_of(p));
    const bool counted = is_dispatch(p);
    if (counted) release_to_system(p);
    if (counted && completion_of(p).handle == 0) {
      p.dispatch.completion_signal = queue.counter;
      out.push_back(p);
    } else {
      out.push_back(p);
      if (counted) out.push_back(barrier_packet(queue.counter, HSA_FENCE_SCOPE_NONE));
    }
    dispatches += counted ? 1 : 0;
  }
  queue.submitted.fetch_add(dispatches, std::memory_order_release);
  write(out.data(), out.size());
}

std::string drain(std::uint64_t deadline_ns) {
  std::vector<std::shared_ptr<Queue>> all;
  {
    std::lock_guard hold(queues().lock);
    for (const auto& [handle, queue] : queues().all)
      if (queue->counter.handle != 0) all.push_back(queue);
  }
  for (const std::uint64_t start = now_ns();;) {
    std::string busy = copies().busy();
    for (const auto& q : all)
      if (kCounterStart - load(q->counter) < q->submitted.load(std::memory_order_acquire))
        busy = "queue " + std::to_string(q->number);
    if (busy.empty()) return {};
    if (now_ns() - start > deadline_ns)
      return busy + " did not drain within " + std::to_string(deadline_ns / 1'000'000) +
             " ms: it waits for something that comes later, or runs for longer";
    pause(start);
  }
}

bool wait_signal(hsa_signal_t signal, std::uint64_t deadline_ns) {
  for (const std::uint64_t start = now_ns(); load(signal) >= 1;) {
    if (now_ns() - start > deadline_ns) return false;
    pause(start);
  }
  return true;
}

hsa_signal_t new_signal() { return make_signal(1); }

void hook_queues(HsaApiTable& table) {
  replace(*table.core_, &CoreApiTable::hsa_queue_create_fn, queue_create);
  replace(*table.core_, &CoreApiTable::hsa_queue_destroy_fn, queue_destroy);
  if (api().amd.hsa_amd_runtime_queue_create_register_fn != nullptr)
    api().amd.hsa_amd_runtime_queue_create_register_fn(on_runtime_queue, nullptr);
}

void forget_queues() {
  std::lock_guard hold(queues().lock);
  for (const auto& [handle, queue] : queues().all) drop_counter(*queue);
  queues().all.clear();
}

void queues_after_fork() {
  new (&queues().lock) std::mutex;
  gate().after_fork();
}

}  // namespace klab::shim
