// SPDX-License-Identifier: Apache-2.0
#include "shim/hsa/capture.h"

#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <new>

#include "shim/common/link.h"
#include "shim/hsa/agents.h"
#include "shim/hsa/code.h"
#include "shim/hsa/gate.h"
#include "shim/hsa/signals.h"
#include "shim/hsa/snapshot.h"
#include "shim/launch/kernels.h"

namespace klab::shim {
namespace {

constexpr auto kOneAtATime = std::chrono::seconds(60);

std::timed_mutex& capture_lock() {
  static std::timed_mutex* const the = new std::timed_mutex;
  return *the;
}

// A signal that goes with its scope, unless the device may still use it.
struct Signal {
  hsa_signal_t handle = new_signal();
  bool lost = false;
  Signal() = default;
  Signal(const Signal&) = delete;
  ~Signal() {
    if (handle.handle != 0 && !lost) api().core.hsa_signal_destroy_fn(handle);
  }
};

// The kernel outlived our deadline: the program is told when it ends, by the runtime's thread.
struct Late {
  hsa_signal_t ours, programs;
};
bool late_end(hsa_signal_value_t, void* data) {
  const std::unique_ptr<Late> late(static_cast<Late*>(data));
  complete_for_program(late->ours, late->programs);
  return false;
}

struct Taking {
  Queue& queue;
  const Packet& packet;
  const std::shared_ptr<const Loaded> loaded;
  const std::uint64_t nth;
  const Writer write;
  Signal ended, flushed;
  bool handed_on = false;  // the dispatch itself
  bool completed = false;  // the program has been told, or will be
};

// Holds everyone else back and empties the device.
std::string quieten() {
  const std::uint64_t deadline = link().config().deadline_ns;
  constexpr int kOwnPass = 1;  // this thread came through the gate once
  if (!gate().close(deadline, kOwnPass))
    return "another thread is in a call of the runtime that does not end";
  return drain(deadline);
}

// The dispatch runs to its end; the program does not hear of it yet.
std::string run(Taking& t, double& program_ns) {
  const std::uint64_t deadline = link().config().deadline_ns;
  Packet ours[2] = {t.packet, barrier_packet(t.flushed.handle, HSA_FENCE_SCOPE_SYSTEM)};
  ours[0].dispatch.completion_signal = t.ended.handle;
  t.handed_on = true;
  t.write(ours, 2);
  if (!wait_signal(t.ended.handle, deadline)) {
    t.ended.lost = t.flushed.lost = t.completed = true;
    const hsa_signal_t programs = completion_of(t.packet);
    auto late = std::make_unique<Late>(Late{t.ended.handle, programs});
    if (programs.handle != 0 &&
        api().amd.hsa_amd_signal_async_handler_fn(t.ended.handle, HSA_SIGNAL_CONDITION_LT, 1, late_end,
                                                  late.get()) == HSA_STATUS_SUCCESS)
      (void)late.release();
    return "the kernel itself did not end within " + std::to_string(deadline / 1'000'000) + " ms";
  }
  hsa_amd_profiling_dispatch_time_t time{};
  if (api().amd.hsa_amd_profiling_get_dispatch_time_fn(t.queue.agent, t.ended.handle, &time) ==
          HSA_STATUS_SUCCESS &&
      time.start != 0 && time.end > time.start)
    program_ns = ticks_to_ns(time.end - time.start);
  t.flushed.lost = !wait_signal(t.flushed.handle, deadline);
  return t.flushed.lost ? "what it wrote did not become visible" : drain(deadline);
}

// Everything from an idle device to the sent post-state. Empty and not `stopped`: captured.
std::string take(Taking& t, bool& stopped) {
  stopped = true;
  if (t.ended.handle.handle == 0 || t.flushed.handle.handle == 0) return "the runtime has no signal left";
  if (!t.loaded->code) return "its code was not seen when the program loaded it";
  if (!send_code(*t.loaded->kernel, *t.loaded->code)) return {};
  if (std::string why = quieten(); !why.empty()) return why;
  Snapshot snapshot(*t.loaded, t.packet, t.queue, t.nth, counts().sequence.load());
  switch (snapshot.before()) {
    case Snapshot::Step::refused:
      return snapshot.refusal();
    case Snapshot::Step::stopped:
      return {};
    case Snapshot::Step::go:
      break;
  }
  double program_ns = 0;
  if (std::string why = run(t, program_ns); !why.empty()) return why;
  const Snapshot::Step step = snapshot.after(program_ns);
  if (step == Snapshot::Step::refused) return snapshot.refusal();
  stopped = step != Snapshot::Step::go;
  return {};
}

void take_dispatch(Queue& queue, const Packet& packet, std::shared_ptr<const Loaded> loaded,
                   std::uint64_t nth, Writer write) {
  const std::uint64_t started = now_ns();
  Kernel& kernel = *loaded->kernel;
  if (!capture_lock().try_lock_for(kOneAtATime)) {
    refuse(kernel, nth, "another thread's capture did not end");
    tell_submitted(static_cast<double>(now_ns() - started) / 1e6, true);
    return forward(queue, &packet, 1, write);
  }
  Taking t{queue, packet, std::move(loaded), nth, write};
  bool stopped = true;
  std::string why;
  try {
    why = take(t, stopped);
  } catch (const std::exception& e) {
    why = e.what();
  }
  if (!t.handed_on)
    forward(queue, &packet, 1, write);
  else if (!t.completed)
    complete_for_program(t.ended.handle, completion_of(packet));
  gate().open();
  if (!why.empty()) refuse(kernel, nth, why);
  tell_submitted(static_cast<double>(now_ns() - started) / 1e6, !why.empty() || stopped);
  capture_lock().unlock();
}

// The kernel of a dispatch when it is one that was asked for.
std::shared_ptr<const Loaded> wanted(const Packet& packet) {
  auto loaded = loaded_kernel(packet.dispatch.kernel_object);
  return loaded && loaded->kernel->matches ? loaded : nullptr;
}

}  // namespace

void capture_packets(Queue& queue, const Packet* packets, std::uint64_t count, Writer write) {
  std::uint64_t handed_on = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (!is_dispatch(packets[i])) continue;
    counts().sequence.fetch_add(1, std::memory_order_relaxed);
    std::uint64_t nth = 0;
    std::shared_ptr<const Loaded> loaded;
    try {
      loaded = wanted(packets[i]);
      if (!loaded || !take_number(*loaded->kernel, nth)) continue;
    } catch (const std::exception& e) {
      log("%s; a dispatch is not looked at", e.what());
      continue;
    }
    forward(queue, packets + handed_on, i - handed_on, write);
    handed_on = i + 1;
    take_dispatch(queue, packets[i], std::move(loaded), nth, write);
  }
  forward(queue, packets + handed_on, count - handed_on, write);
}

void capture_after_fork() { new (&capture_lock()) std::timed_mutex; }

}  // namespace klab::shim
