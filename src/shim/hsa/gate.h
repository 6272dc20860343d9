// SPDX-License-Identifier: Apache-2.0
// Holding back what other threads do while a capture reads: dispatches, copies, frees.
// Not here: waiting for the device (drain.h).
#pragma once
#include <atomic>

#include "shim/launch/pause.h"

namespace klab::shim {

class Gate {
 public:
  /// Around a call of the program: waits (bounded) at its start while another thread's capture is on.
  class Pass {
   public:
    explicit Pass(Gate& gate) : gate_(gate) { gate_.enter(); }
    ~Pass() { gate_.inside_.fetch_sub(1, std::memory_order_release); }
    Pass(const Pass&) = delete;

   private:
    Gate& gate_;
  };

  /// From here on nobody else passes. False: someone who had passed before did not come out.
  bool close(std::uint64_t deadline_ns, int own_passes) {
    mine_ = true;
    closed_.store(true, std::memory_order_seq_cst);
    for (const std::uint64_t start = now_ns(); inside_.load(std::memory_order_seq_cst) > own_passes;) {
      if (now_ns() - start > deadline_ns) return false;
      pause(start);
    }
    return true;
  }
  void open() {
    closed_.store(false, std::memory_order_release);
    mine_ = false;
  }
  void after_fork() {
    closed_ = false;
    inside_ = 0;
    mine_ = false;
  }

 private:
  void enter() {
    constexpr std::uint64_t kMostNs = 60'000'000'000;
    const std::uint64_t start = now_ns();
    for (;;) {
      inside_.fetch_add(1, std::memory_order_seq_cst);
      if (!closed_.load(std::memory_order_seq_cst) || mine_ || now_ns() - start > kMostNs) return;
      inside_.fetch_sub(1, std::memory_order_release);
      while (closed_.load(std::memory_order_acquire) && now_ns() - start <= kMostNs) pause(start);
    }
  }
  std::atomic<bool> closed_{false};
  std::atomic<int> inside_{0};
  static inline thread_local bool mine_ = false;
};

Gate& gate();

}  // namespace klab::shim
