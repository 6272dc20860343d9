// SPDX-License-Identifier: Apache-2.0
// The program's contexts and streams, waiting until they are idle, and holding other threads back meanwhile.
// Not here: what is read then (snapshot.h).
#pragma once
#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace klab::shim {

/// How much of what other threads do waits until a capture is over.
enum class Gate : int {
  open,
  draining,  // streams and contexts are not destroyed
  closed     // nothing is launched, freed or unmapped either
};

/// Thread: any. No driver call is made under its lock: callbacks take it while the driver holds its own.
class Streams {
 public:
  void context_created(CUcontext context);
  void context_destroyed(CUcontext context);
  void created(CUcontext context, CUstream stream);
  void destroyed(CUstream stream);
  /// `context` is used by a launch: known even when its creation was not seen.
  void seen(CUcontext context) { context_created(context); }

  /// Some thread works in its own default stream, which no other thread can ask for.
  void per_thread_used() { per_thread_.store(true, std::memory_order_relaxed); }

  /// At the start of a call of the program: waits (bounded) while another thread's capture forbids it.
  void enter(Gate forbidden_from) const;
  void set_gate(Gate gate);

  /// Polls all streams until they are idle. Streams that record a graph are passed over. Empty: drained; else
  /// what did not drain, or the driver's error. `deadline_ns`: how long from now. No context of ours stays
  /// current.
  std::string drain(std::uint64_t deadline_ns) const;
  /// Polls one event. Empty: it was reached.
  static std::string wait(CUevent event, std::uint64_t deadline_ns);
  void after_fork();

 private:
  std::map<CUcontext, std::vector<CUstream>> copy() const;
  std::string drain_default(CUcontext context, std::uint64_t deadline_ns) const;
  mutable std::mutex lock_;
  std::set<CUcontext> contexts_;
  std::map<CUstream, CUcontext> streams_;
  std::atomic<int> gate_{static_cast<int>(Gate::open)};
  std::atomic<bool> per_thread_{false};
};
Streams& streams();

}  // namespace klab::shim
