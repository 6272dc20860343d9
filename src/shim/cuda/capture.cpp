// SPDX-License-Identifier: Apache-2.0
#include "shim/cuda/capture.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <new>
#include <unordered_map>

#include "shim/common/link.h"
#include "shim/cuda/device.h"
#include "shim/cuda/drain.h"
#include "shim/cuda/driver.h"
#include "shim/cuda/snapshot.h"

namespace klab::shim {
namespace {

constexpr auto kOneAtATime = std::chrono::seconds(60);
constexpr std::size_t kMaxNodes = 1u << 20;  // of one graph
constexpr int kMaxDepth = 16;                // of child graphs

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

struct Graphs {
  std::mutex lock;
  std::unordered_map<CUgraphExec, std::vector<Kernel*>> wanted;  // matching kernels, in node order
};
Graphs& graphs() {
  static Graphs* const the = new Graphs;
  return *the;
}

// Whether the n-th execution of `kernel` is one that was asked for; it counts as taken then.
bool take_number(Kernel& kernel, std::uint64_t& nth) {
  Counts& c = counts();
  std::lock_guard hold(c.lock);
  nth = ++kernel.executions;
  if (c.finished || !link().live() || (c.chosen != nullptr && c.chosen != &kernel)) return false;
  const auto& wanted = link().config().nth;
  if (!std::binary_search(wanted.begin(), wanted.end(), nth)) return false;
  c.chosen = &kernel;
  ++c.taken;
  return true;
}

void refuse(const Kernel& kernel, std::uint64_t nth, const std::string& why) {
  const std::string_view name = std::string_view(kernel.name).substr(0, 4096);
  const std::string_view text = std::string_view(why).substr(0, KLAB_MAX_TEXT);
  klab_text record{};
  record.nth = nth;
  record.kernel = kernel.id;
  record.what_length = static_cast<std::uint32_t>(name.size());
  record.why_length = static_cast<std::uint32_t>(text.size());
  link().send(&record, sizeof record, KLAB_REFUSED, {name, text});
}

void tell_submitted(double waited_ms, bool given_up) {
  send_counts();
  klab_submitted done{};
  done.waited_ms = waited_ms;
  {
    Counts& c = counts();
    std::lock_guard hold(c.lock);
    if (given_up || c.taken >= link().config().nth.size()) c.finished = true;
    done.last = c.finished ? 1 : 0;
  }
  link().send(&done, sizeof done, KLAB_SUBMITTED);
}

void drop_events(Active& a) {
  if (a.begin != nullptr) driver().EventDestroy(a.begin);
  if (a.end != nullptr) driver().EventDestroy(a.end);
  a.begin = a.end = nullptr;
}

// All of one capture that comes before the launch. Empty refusal and a snapshot: the launch is captured.
std::string begin_capture(Active& a) {
  const std::uint64_t deadline = link().config().deadline_ns;
  std::string why;
  a.resolved = resolve(a.launch.function, *a.kernel, why);
  if (!why.empty()) return why;
  if (!send_code(*a.kernel, *a.resolved.code)) return {};
  streams().seen(a.context);
  streams().set_gate(Gate::draining);
  if (why = streams().drain(deadline); !why.empty()) return why;
  // Nothing is launched from here on; what came in between is waited for.
  streams().set_gate(Gate::closed);
  if (why = streams().drain(deadline); !why.empty()) return why;
  const std::uint32_t device = announce_current_device();
  auto snapshot = std::make_unique<Snapshot>(*a.kernel, a.resolved, a.launch, device, a.nth, counts().sequence.load());
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

void collect_kernels(CUgraph graph, int depth, std::vector<Kernel*>& found) {
  const Driver& d = driver();
  std::size_t count = 0;
  if (d.GraphGetNodes(graph, nullptr, &count) != CUDA_SUCCESS || count == 0 || count > kMaxNodes) return;
  std::vector<CUgraphNode> nodes(count);
  if (d.GraphGetNodes(graph, nodes.data(), &count) != CUDA_SUCCESS) return;
  nodes.resize(std::min(count, nodes.size()));
  for (const CUgraphNode node : nodes) {
    CUgraphNodeType type{};
    if (d.GraphNodeGetType(node, &type) != CUDA_SUCCESS) continue;
    if (type == CU_GRAPH_NODE_TYPE_KERNEL) {
      CUDA_KERNEL_NODE_PARAMS params{};
      if (d.GraphKernelNodeGetParams(node, &params) != CUDA_SUCCESS) continue;
      CUfunction f = params.func != nullptr ? params.func : reinterpret_cast<CUfunction>(params.kern);
      if (f == nullptr) continue;
      if (Kernel* k = wanted_kernel(f, nullptr); k != nullptr) found.push_back(k);
    } else if (type == CU_GRAPH_NODE_TYPE_GRAPH && depth < kMaxDepth && d.GraphChildGraphNodeGetGraph != nullptr) {
      CUgraph child = nullptr;
      if (d.GraphChildGraphNodeGetGraph(node, &child) == CUDA_SUCCESS && child != nullptr)
        collect_kernels(child, depth + 1, found);
    }
  }
}

}  // namespace

void graph_instantiated(CUgraphExec exec, CUgraph graph) {
  const Driver& d = driver();
  if (d.GraphGetNodes == nullptr || d.GraphNodeGetType == nullptr || d.GraphKernelNodeGetParams == nullptr) return;
  Inside guard;
  const Relaxed relaxed;
  std::vector<Kernel*> found;
  collect_kernels(graph, 0, found);
  std::lock_guard hold(graphs().lock);
  if (found.empty())
    graphs().wanted.erase(exec);
  else
    graphs().wanted[exec] = std::move(found);
}

void graph_forgotten(CUgraphExec exec) {
  std::lock_guard hold(graphs().lock);
  graphs().wanted.erase(exec);
}

void graph_launch_begins(CUgraphExec exec, CUstream stream) {
  std::vector<Kernel*> kernels;
  {
    std::lock_guard hold(graphs().lock);
    const auto it = graphs().wanted.find(exec);
    if (it == graphs().wanted.end()) return;
    kernels = it->second;
  }
  Inside guard;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (driver().StreamIsCapturing(stream, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE) return;
  for (Kernel* k : kernels) {
    std::uint64_t nth = 0;
    if (!take_number(*k, nth)) continue;
    refuse(*k, nth, "it runs as a node of a CUDA graph, which is not taken apart; run the program without graphs");
    tell_submitted(0, true);
  }
}

void capture_after_fork() {
  active = nullptr;
  new (&capture_lock()) std::timed_mutex;
  new (&graphs().lock) std::mutex;
}

}  // namespace klab::shim
