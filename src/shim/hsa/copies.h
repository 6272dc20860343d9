// SPDX-License-Identifier: Apache-2.0
// The program's copies by the runtime: which are still going on. Not here: kernels (queues.h).
#pragma once
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "shim/hsa/api.h"

namespace klab::shim {

/// Thread: any.
class Copies {
 public:
  void started(hsa_signal_t completion, std::int64_t value_before, const hsa_signal_t* waits_for,
               std::uint32_t count);
  /// The program gives a signal to something else: what it told of is over.
  void used_again(hsa_signal_t signal);
  void destroyed(hsa_signal_t signal);
  /// Empty: none runs. What a copy waits for is read only while its signal lives.
  std::string busy();
  void after_fork();

 private:
  struct Copy {
    std::int64_t value_before = 0;
    std::vector<std::uint64_t> waits_for;
  };
  void forget_done_locked();
  std::mutex lock_;
  std::unordered_map<std::uint64_t, Copy> copies_;  // by completion signal
};
Copies& copies();

void hook_copies(HsaApiTable& table);

}  // namespace klab::shim
