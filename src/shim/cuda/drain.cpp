// SPDX-License-Identifier: Apache-2.0
#include "shim/cuda/drain.h"

#include <cstdio>
#include <new>

#include "shim/common/link.h"
#include "shim/cuda/driver.h"
#include "shim/launch/pause.h"

namespace klab::shim {
namespace {

constexpr std::uint64_t kGateNs = 60'000'000'000;

std::string stream_text(CUstream s) {
  if (s == CU_STREAM_LEGACY) return "the default stream";
  if (s == CU_STREAM_PER_THREAD) return "the thread's default stream";
  char text[32];
  std::snprintf(text, sizeof text, "stream %p", static_cast<void*>(s));
  return text;
}

}  // namespace

Streams& streams() {
  static Streams* const the = new Streams;
  return *the;
}

void Streams::context_created(CUcontext context) {
  if (context == nullptr) return;
  std::lock_guard hold(lock_);
  contexts_.insert(context);
}

void Streams::context_destroyed(CUcontext context) {
  std::lock_guard hold(lock_);
  contexts_.erase(context);
  for (auto it = streams_.begin(); it != streams_.end();)
    it = it->second == context ? streams_.erase(it) : std::next(it);
}

void Streams::created(CUcontext context, CUstream stream) {
  if (context == nullptr || stream == nullptr) return;
  std::lock_guard hold(lock_);
  contexts_.insert(context);
  streams_[stream] = context;
}

void Streams::destroyed(CUstream stream) {
  std::lock_guard hold(lock_);
  streams_.erase(stream);
}

void Streams::enter(Gate forbidden_from) const {
  if (gate_.load(std::memory_order_acquire) < static_cast<int>(forbidden_from)) return;
  for (const std::uint64_t start = now_ns();
       gate_.load(std::memory_order_acquire) >= static_cast<int>(forbidden_from) &&
       now_ns() - start < kGateNs;)
    pause(start);
}

void Streams::set_gate(Gate gate) {
  std::lock_guard hold(lock_);
  gate_.store(static_cast<int>(gate), std::memory_order_release);
}

std::map<CUcontext, std::vector<CUstream>> Streams::copy() const {
  std::lock_guard hold(lock_);
  std::map<CUcontext, std::vector<CUstream>> all;
  for (const CUcontext c : contexts_) all[c] = {CU_STREAM_LEGACY, CU_STREAM_PER_THREAD};
  for (const auto& [stream, context] : streams_) all[context].push_back(stream);
  return all;
}

// Default streams of other threads cannot be queried from here. The legacy default stream comes after all
// that is in them: an event in it is reached when they are idle.
std::string Streams::drain_default(CUcontext context, std::uint64_t deadline_ns) const {
  const Driver& d = driver();
  const Current current(context);
  if (!current.ok()) return {};
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (d.StreamIsCapturing(CU_STREAM_LEGACY, &status) != CUDA_SUCCESS ||
      status != CU_STREAM_CAPTURE_STATUS_NONE)
    return {};  // it must not be touched while a graph is recorded
  CUevent event = nullptr;
  if (d.EventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) return {};
  std::string why;
  if (d.EventRecord(event, CU_STREAM_LEGACY) == CUDA_SUCCESS) why = wait(event, deadline_ns);
  d.EventDestroy(event);
  return why.empty() ? why : "the default streams of its threads: " + why;
}

std::string Streams::drain(std::uint64_t deadline_ns) const {
  const Driver& d = driver();
  const std::uint64_t start = now_ns();
  auto all = copy();
  if (per_thread_.load(std::memory_order_relaxed))
    for (const auto& [context, list] : all)
      if (std::string why = drain_default(context, deadline_ns); !why.empty()) return why;
  for (;;) {
    std::string busy;
    for (auto& [context, list] : all) {
      if (list.empty()) continue;
      const Current current(context);
      if (!current.ok()) {  // it is being destroyed
        list.clear();
        continue;
      }
      // A stream that was idle once stays so for us: what is launched into it later is caught by the second
      // look.
      std::vector<CUstream> left;
      for (const CUstream s : list) {
        CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
        // While a graph is recorded, a query would break the recording; what is recorded does not run.
        if (d.StreamIsCapturing(s, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE)
          continue;
        const CUresult result = d.StreamQuery(s);
        if (result == CUDA_ERROR_NOT_READY) {
          left.push_back(s);
          if (busy.empty()) busy = stream_text(s);
        } else if (result == CUDA_ERROR_ILLEGAL_ADDRESS || result == CUDA_ERROR_LAUNCH_FAILED ||
                   result == CUDA_ERROR_LAUNCH_TIMEOUT || result == CUDA_ERROR_ASSERT ||
                   result == CUDA_ERROR_MISALIGNED_ADDRESS || result == CUDA_ERROR_ILLEGAL_INSTRUCTION ||
                   result == CUDA_ERROR_ECC_UNCORRECTABLE || result == CUDA_ERROR_HARDWARE_STACK_ERROR ||
                   result == CUDA_ERROR_INVALID_ADDRESS_SPACE || result == CUDA_ERROR_INVALID_PC) {
          return "the device had failed before it ran (" + failed("cuStreamQuery", result) + ")";
        }
      }
      list = std::move(left);
    }
    if (busy.empty()) return {};
    if (now_ns() - start > deadline_ns)
      return busy + " did not drain within " + std::to_string(deadline_ns / 1'000'000) +
             " ms: it waits for something that comes later, or runs for longer";
    pause(start);
  }
}

std::string Streams::wait(CUevent event, std::uint64_t deadline_ns) {
  const std::uint64_t start = now_ns();
  for (;;) {
    const CUresult result = driver().EventQuery(event);
    if (result == CUDA_SUCCESS) return {};
    if (result != CUDA_ERROR_NOT_READY) return failed("cuEventQuery", result);
    if (now_ns() - start > deadline_ns)
      return "not done within " + std::to_string(deadline_ns / 1'000'000) + " ms";
    pause(start);
  }
}

void Streams::after_fork() {
  new (&lock_) std::mutex;
  gate_ = static_cast<int>(Gate::open);
}

}  // namespace klab::shim
