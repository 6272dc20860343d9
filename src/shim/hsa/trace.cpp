// SPDX-License-Identifier: Apache-2.0
#include "shim/hsa/trace.h"

#include <atomic>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>
#include <vector>

#include "shim/common/link.h"
#include "shim/hsa/agents.h"
#include "shim/hsa/code.h"
#include "shim/hsa/signals.h"
#include "shim/launch/pause.h"

namespace klab::shim {
namespace {

constexpr std::uint64_t kFlushNs = 2'000'000'000;

struct Running {
  klab_row row{};
  hsa_agent_t agent{};
  hsa_signal_t ours{}, programs{};
  bool told = false;  // klab has the row already
};

struct Tracing {
  std::mutex lock;
  std::uint64_t sequence = 0;
  std::unordered_map<std::uint32_t, std::uint64_t> executions;  // by kernel
  std::map<std::uint64_t, std::shared_ptr<Running>> running;    // by sequence
  std::vector<hsa_signal_t> idle;                               // signals to use again
  std::uint64_t begin_ticks = 0;
  bool ended = false;
};
Tracing& tracing() {
  static Tracing* const the = new Tracing;
  return *the;
}

hsa_signal_t take_signal() {
  {
    std::lock_guard hold(tracing().lock);
    if (!tracing().idle.empty()) {
      const hsa_signal_t signal = tracing().idle.back();
      tracing().idle.pop_back();
      api().core.hsa_signal_store_screlease_fn(signal, 1);
      return signal;
    }
  }
  hsa_signal_t signal{};
  // One that interrupts: the runtime's thread waits for it.
  if (api().core.hsa_signal_create_fn(1, 0, nullptr, &signal) != HSA_STATUS_SUCCESS) return {};
  return signal;
}

// In the runtime's own thread, after the dispatch.
bool on_end(hsa_signal_value_t, void* data) {
  const auto sequence = reinterpret_cast<std::uintptr_t>(data);
  std::shared_ptr<Running> r;
  bool told = false;
  {
    std::lock_guard hold(tracing().lock);
    const auto it = tracing().running.find(sequence);
    if (it == tracing().running.end()) return false;
    r = std::move(it->second);
    tracing().running.erase(it);
    told = r->told;
  }
  hsa_amd_profiling_dispatch_time_t time{};
  if (api().amd.hsa_amd_profiling_get_dispatch_time_fn(r->agent, r->ours, &time) == HSA_STATUS_SUCCESS &&
      time.start != 0 && time.end >= time.start) {
    if (time.start >= tracing().begin_ticks)
      r->row.begin_ns = ticks_to_ns(time.start - tracing().begin_ticks);
    r->row.gpu_ns = ticks_to_ns(time.end - time.start);
  }
  complete_for_program(r->ours, r->programs);
  if (!told) link().add_rows(&r->row, 1);
  link().send_rows(false);
  std::lock_guard hold(tracing().lock);
  tracing().idle.push_back(r->ours);
  return false;
}

// Null: this dispatch goes on unchanged.
std::shared_ptr<Running> begin(const Queue& queue, const hsa_kernel_dispatch_packet_t& p) {
  const auto loaded = loaded_kernel(p.kernel_object);
  if (!loaded) return nullptr;
  auto r = std::make_shared<Running>();
  r->agent = queue.agent;
  r->programs = p.completion_signal;
  r->ours = take_signal();
  if (r->ours.handle == 0) return nullptr;
  klab_row& row = r->row;
  row.kernel = loaded->kernel->id;
  row.call = KLAB_CALL_HSA_DISPATCH;
  row.queue = queue.number;
  const std::uint32_t threads[3] = {p.grid_size_x, p.grid_size_y, p.grid_size_z};
  const std::uint32_t block[3] = {p.workgroup_size_x, p.workgroup_size_y, p.workgroup_size_z};
  for (int i = 0; i < 3; ++i) row.grid[i] = blocks_of(threads[i], row.block[i] = block[i]);
  if (p.group_segment_size > loaded->group_bytes)
    row.dynamic_shared_bytes = p.group_segment_size - loaded->group_bytes;
  std::lock_guard hold(tracing().lock);
  if (tracing().begin_ticks == 0)
    api().core.hsa_system_get_info_fn(HSA_SYSTEM_INFO_TIMESTAMP, &tracing().begin_ticks);
  row.sequence = ++tracing().sequence;
  row.nth = ++tracing().executions[row.kernel];
  tracing().running[row.sequence] = r;
  return r;
}

}  // namespace

void trace_packets(Queue& queue, const Packet* packets, std::uint64_t count, Writer write) {
  std::vector<Packet> out(packets, packets + count);
  for (Packet& p : out) {
    if (!is_dispatch(p)) continue;
    try {
      const auto r = begin(queue, p.dispatch);
      if (!r) continue;
      // Asked for first: the handler must not miss a dispatch that ends at once.
      if (api().amd.hsa_amd_signal_async_handler_fn(r->ours, HSA_SIGNAL_CONDITION_LT, 1, on_end,
                                                    reinterpret_cast<void*>(r->row.sequence)) !=
          HSA_STATUS_SUCCESS) {
        link().add_rows(&r->row, 1);
        std::lock_guard hold(tracing().lock);
        tracing().running.erase(r->row.sequence);
        continue;
      }
      p.dispatch.completion_signal = r->ours;
    } catch (const std::exception& e) {
      log("%s; the list of dispatches lacks some", e.what());
    }
  }
  write(out.data(), out.size());
}

void flush_trace() {
  for (const std::uint64_t start = now_ns(); now_ns() - start < kFlushNs; pause(start)) {
    std::lock_guard hold(tracing().lock);
    if (tracing().running.empty()) break;
  }
  std::vector<klab_row> left;  // they ran; how long is not known
  {
    std::lock_guard hold(tracing().lock);
    for (const auto& [sequence, r] : tracing().running)
      if (!std::exchange(r->told, true)) left.push_back(r->row);
  }
  link().add_rows(left.data(), left.size());
  link().send_rows(true);
}

void forget_trace() {
  std::lock_guard hold(tracing().lock);
  for (const hsa_signal_t signal : tracing().idle) api().core.hsa_signal_destroy_fn(signal);
  tracing().idle.clear();
}

void trace_after_fork() { new (&tracing().lock) std::mutex; }

}  // namespace klab::shim
