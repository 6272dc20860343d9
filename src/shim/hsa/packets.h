// SPDX-License-Identifier: Apache-2.0
// AQL packets. Not here: who writes them (queues.h).
#pragma once
#include <cstdint>
#include <cstring>

#include "shim/hsa/api.h"

namespace klab::shim {

union Packet {
  hsa_kernel_dispatch_packet_t dispatch;
  hsa_barrier_and_packet_t barrier;
};
static_assert(sizeof(Packet) == 64);

inline std::uint32_t type_of(const Packet& p) {
  return p.dispatch.header >> HSA_PACKET_HEADER_TYPE & ((1u << HSA_PACKET_HEADER_WIDTH_TYPE) - 1);
}
inline bool is_dispatch(const Packet& p) { return type_of(p) == HSA_PACKET_TYPE_KERNEL_DISPATCH; }

/// Every kind of packet has its completion signal last.
inline hsa_signal_t completion_of(const Packet& p) { return p.dispatch.completion_signal; }

/// Waits for all before it in its queue, then decrements `signal`. `scope`: to what the memory that was
/// written before is made visible.
inline Packet barrier_packet(hsa_signal_t signal, hsa_fence_scope_t scope) {
  Packet p;
  std::memset(&p, 0, sizeof p);
  p.barrier.header = static_cast<std::uint16_t>(
      HSA_PACKET_TYPE_BARRIER_AND << HSA_PACKET_HEADER_TYPE | 1u << HSA_PACKET_HEADER_BARRIER |
      static_cast<unsigned>(scope) << HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE |
      static_cast<unsigned>(scope) << HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE);
  p.barrier.completion_signal = signal;
  return p;
}

/// What a dispatch writes is visible to copies and to the host when it ends.
inline void release_to_system(Packet& p) {
  p.dispatch.header = static_cast<std::uint16_t>(
      (p.dispatch.header & ~(3u << HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE)) |
      static_cast<unsigned>(HSA_FENCE_SCOPE_SYSTEM) << HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE);
}

/// Work-items in whole and partial blocks.
inline std::uint32_t blocks_of(std::uint32_t threads, std::uint32_t block) {
  return block == 0 ? 0 : threads / block + (threads % block != 0 ? 1 : 0);
}

}  // namespace klab::shim
