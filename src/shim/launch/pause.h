// SPDX-License-Identifier: Apache-2.0
// Waiting by polling. Not here: what is waited for.
#pragma once
#include <sched.h>
#include <unistd.h>

#include <cstdint>

#include "shim/common/link.h"

namespace klab::shim {

/// Waits a little, longer the longer it has been waited.
inline void pause(std::uint64_t since_ns) {
  const std::uint64_t waited = now_ns() - since_ns;
  if (waited < 2'000'000)
    ::sched_yield();
  else
    ::usleep(waited < 100'000'000 ? 50 : 1000);
}

}  // namespace klab::shim
