// SPDX-License-Identifier: Apache-2.0
#include "shim/cuda/capture.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <new>

#include "shim/common/link.h"
#include "shim/cuda/device.h"
#include "shim/cuda/drain.h"
#include "shim/cuda/driver.h"
#include "shim/cuda/graph.h"
#include "shim/cuda/snapshot.h"

namespace klab::shim {
namespace {

constexpr auto kOneAtATime = std::chrono::seconds(60);

struct Active {
  Kernel* kernel = nullptr;
  std::uint64_t nth = 0, started = 0, spent = 0;
  Launch launch;
  CUcontext context = nullptr;
  Resolved resolved;
  std::unique_ptr<Snapshot> snapshot;
  CUevent begin = nullptr, end = nullptr;
};
thread_local Active* active = nullptr;

std::timed_mutex& capture_lock() {
  static std::timed_mutex* const the = new std::timed_mutex;
  return *the;
}

void drop_events(Active& a) {
  if (a.begin != nullptr) driver().EventDestroy(a.begin);
  if (a.end != nullptr) driver().EventDestroy(a.end);
  a.begin = a.end = nullptr;
}

// Nothing is launched from here on; what came in between is waited for.
std::string close_gate(std::uint64_t deadline_ns) {
  streams().set_gate(Gate::draining);
  if (std::string why = streams().drain(deadline_ns); !why.empty()) return why;
  streams().set_gate(Gate::closed);
  return streams().drain(deadline_ns);
}

// All of one capture that comes before the launch. Empty refusal and a snapshot: the launch is captured.
std::string begin_capture(Active& a) {
  const std::uint64_t deadline = link().config().deadline_ns;
  std::string why;
  a.resolved = resolve(a.launch.function, *a.kernel, why);
  if (!why.empty()) return why;
  if (!send_code(*a.kernel, a.resolved.code->bytes)) return {};
  streams().seen(a.context);
  if (why = close_gate(deadline); !why.empty()) return why;
  const std::uint32_t device = announce_current_device();
  auto snapshot =
      std::make_unique<Snapshot>(*a.kernel, a.resolved, a.launch, device, a.nth, counts().sequence.load());
  switch (snapshot->before()) {
    case Snapshot::Step::refused:
      return snapshot->refusal();
    case Snapshot::Step::stopped:
      return {};
    case Snapshot::Step::go:
      break;
  }
  const Driver& d = driver();
  if (d.EventCreate(&a.begin, CU_EVENT_DEFAULT) != CUDA_SUCCESS) a.begin = nullptr;
  if (const CUresult r = d.EventCreate(&a.end, CU_EVENT_DEFAULT); r != CUDA_SUCCESS) {
    a.end = nullptr;
    return failed("cuEventCreate", r);
  }
  if (a.begin != nullptr && d.EventRecord(a.begin, a.launch.real_stream()) != CUDA_SUCCESS) {
    d.EventDestroy(a.begin);
    a.begin = nullptr;
  }
  a.snapshot = std::move(snapshot);
  return {};
}

std::string end_capture(Active& a, CUresult result, Snapshot::Step& step) {
  const Driver& d = driver();
  step = Snapshot::Step::stopped;
  if (result != CUDA_SUCCESS) return "the program's own launch failed (" + failed("launch", result) + ")";
  if (const CUresult r = d.EventRecord(a.end, a.launch.real_stream()); r != CUDA_SUCCESS)
    return "its end cannot be waited for: " + failed("cuEventRecord", r);
  if (const std::string why = Streams::wait(a.end, link().config().deadline_ns); !why.empty())
    return "the kernel itself did not end well: " + why;
  float ms = 0;
  if (a.begin == nullptr || d.EventElapsedTime(&ms, a.begin, a.end) != CUDA_SUCCESS) ms = 0;
  // Launches that came out of this one, and what a programmatic dependency lets run on.
  if (std::string why = streams().drain(link().config().deadline_ns); !why.empty()) return why;
  step = a.snapshot->after(static_cast<double>(ms) * 1e6);
  return step == Snapshot::Step::refused ? a.snapshot->refusal() : std::string();
}

// Everything of a capture goes, in the context that it was made in; the program goes on.
void finish(Active& a, const std::string& refusal, bool stopped) {
  drop_events(a);
  a.snapshot.reset();
  streams().set_gate(Gate::open);
  if (!refusal.empty()) refuse(*a.kernel, a.nth, refusal);
  a.spent += now_ns() - a.started;
  tell_submitted(static_cast<double>(a.spent) / 1e6, !refusal.empty() || stopped);
  capture_lock().unlock();
}

}  // namespace

void launch_begins(const Launch& launch, const char* symbol, CUcontext context) {
  counts().sequence.fetch_add(1, std::memory_order_relaxed);
  if (active != nullptr) return;  // its exit was not seen
  if (launch.real_stream() == CU_STREAM_PER_THREAD) streams().per_thread_used();
  Kernel* kernel = nullptr;
  {
    Inside guard;
    kernel = wanted_kernel(launch.function, symbol);
  }
  if (kernel == nullptr) return;
  Inside guard;
  const Relaxed relaxed;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  // What is recorded into a graph does not run now; it counts when the graph is launched.
  if (driver().StreamIsCapturing(launch.real_stream(), &status) == CUDA_SUCCESS &&
      status != CU_STREAM_CAPTURE_STATUS_NONE)
    return;
  if (!counts().finished.load(std::memory_order_relaxed)) note_code(launch.function, *kernel);
  std::uint64_t nth = 0;
  if (!take_number(*kernel, nth)) return;
  const std::uint64_t started = now_ns();
  if (!capture_lock().try_lock_for(kOneAtATime)) {
    refuse(*kernel, nth, "another thread's capture did not end");
    tell_submitted(static_cast<double>(now_ns() - started) / 1e6, true);
    return;
  }
  auto a = std::make_unique<Active>();
  a->kernel = kernel;
  a->nth = nth;
  a->started = started;
  a->launch = launch;
  a->context = context;
  const std::string why = begin_capture(*a);
  if (!a->snapshot) {
    finish(*a, why, true);
    return;
  }
  a->spent = now_ns() - started;
  active = a.release();
}

void launch_ended(CUresult result) {
  if (active == nullptr) return;
  const std::unique_ptr<Active> a(active);
  active = nullptr;
  Inside guard;
  const Relaxed relaxed;
  const Current current(a->context);
  a->started = now_ns();
  Snapshot::Step step;
  const std::string why = end_capture(*a, result, step);
  finish(*a, why, step != Snapshot::Step::go);
}

namespace {

// The node run by us, captured, and everything put back before the program's own launch.
void capture_node(const GraphCopy& copy, std::size_t index, Kernel& kernel, std::uint64_t nth,
                  CUcontext context) {
  const std::uint64_t started = now_ns();
  if (!capture_lock().try_lock_for(kOneAtATime)) {
    refuse(kernel, nth, "another thread's capture did not end");
    tell_submitted(static_cast<double>(now_ns() - started) / 1e6, true);
    return;
  }
  Active a;
  a.kernel = &kernel;
  a.nth = nth;
  a.started = started;
  a.context = context;
  const std::uint64_t deadline = link().config().deadline_ns;
  NodeStage stage;
  NodeLaunch node;
  streams().seen(context);
  std::string why = close_gate(deadline);
  if (why.empty()) why = stage.prepare(copy, index, deadline);
  Snapshot::Step step = Snapshot::Step::stopped;
  if (why.empty() && node_launch(copy, index, node, why)) {
    a.launch = node.launch;
    a.launch.stream = stage.stream();
    why = begin_capture(a);
    if (a.snapshot) {
      CUlaunchConfig config{};
      const Launch& l = a.launch;
      config.gridDimX = l.grid[0], config.gridDimY = l.grid[1], config.gridDimZ = l.grid[2];
      config.blockDimX = l.block[0], config.blockDimY = l.block[1], config.blockDimZ = l.block[2];
      config.sharedMemBytes = l.dynamic_shared;
      config.hStream = l.stream;
      config.attrs = node.attributes.data();
      config.numAttrs = static_cast<unsigned>(node.attributes.size());
      why = end_capture(a, driver().LaunchKernelEx(&config, l.function, l.parameters, l.extra), step);
    }
  }
  if (const std::string lost = stage.restore(); !lost.empty()) {
    // The program would go on with memory that is not its own: this is told whatever else went wrong.
    log("the program's memory could not be put back after a node of its CUDA graph was taken: %s",
        lost.c_str());
    why = "the program's memory could not be put back: " + lost;
    step = Snapshot::Step::refused;
  }
  finish(a, why, step != Snapshot::Step::go);
}

}  // namespace

void graph_launch_begins(CUgraphExec exec, CUstream stream, CUcontext context) {
  const std::shared_ptr<GraphCopy> copy = graph_copy(exec);
  if (!copy) return;
  Inside guard;
  const Relaxed relaxed;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (driver().StreamIsCapturing(stream, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE)
    return;
  for (std::size_t i = 0; i < copy->nodes.size(); ++i) {
    Kernel* kernel = copy->nodes[i].kernel;
    if (kernel == nullptr) continue;
    std::uint64_t nth = 0;
    if (!take_number(*kernel, nth)) continue;
    if (copy->refusal.empty()) {
      capture_node(*copy, i, *kernel, nth, context);
      continue;
    }
    refuse(*kernel, nth,
           copy->refusal + "; run the program without graphs, or ask for an execution outside one");
    tell_submitted(0, true);
  }
}

void capture_after_fork() {
  active = nullptr;
  new (&capture_lock()) std::timed_mutex;
  graphs_after_fork();
}

}  // namespace klab::shim
