// SPDX-License-Identifier: Apache-2.0
// Packets go round: a wave takes one from the free stack, puts its request on the ready stack, and spins until its ready
// bit is cleared; then it gives the packet back itself.
#include "gpu/hip/hostcall.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace klab::gpu::hip {
namespace {

constexpr std::uint64_t kHeaderAt = 128, kAlign = 4096;
constexpr std::uint32_t kReady = 1;

}  // namespace

std::uint64_t Hostcall::packets(std::uint64_t waves) { return std::bit_ceil(std::max<std::uint64_t>(waves, 64)); }

std::uint64_t Hostcall::bytes(std::uint64_t waves) {
  const std::uint64_t n = packets(waves), headers = kHeaderAt + n * sizeof(Header);
  return (headers + kAlign - 1) / kAlign * kAlign + n * sizeof(Payload);
}

Hostcall::Hostcall(void* memory, std::uint64_t waves, hsa_signal_t doorbell) : buffer_(static_cast<Buffer*>(memory)) {
  static_assert(sizeof(Header) == 24 && sizeof(Payload) == 4096 && sizeof(Buffer) <= kHeaderAt);
  const std::uint64_t n = packets(waves);
  auto* const base = static_cast<std::byte*>(memory);
  buffer_->headers = reinterpret_cast<Header*>(base + kHeaderAt);
  buffer_->payloads =
      reinterpret_cast<Payload*>(base + (kHeaderAt + n * sizeof(Header) + kAlign - 1) / kAlign * kAlign);
  buffer_->doorbell = doorbell.handle;
  buffer_->index_mask = n - 1;
  // A reference is an index with a tag above it, and never 0; number 0 gets a tag of 1.
  std::uint64_t next = n;
  buffer_->headers[0].next = 0;
  for (std::uint64_t i = 1; i < n; ++i) {
    buffer_->headers[i].next = next;
    next = i;
  }
  buffer_->free_stack = next;
  buffer_->ready_stack = 0;
}

void Hostcall::serve() {
  std::uint64_t at = std::atomic_ref(buffer_->ready_stack).exchange(0, std::memory_order_acquire);
  while (at != 0) {
    Header& header = buffer_->headers[at & buffer_->index_mask];
    Payload& payload = buffer_->payloads[at & buffer_->index_mask];
    const std::uint64_t next = header.next;  // the packet is the wave's again once its bit is cleared
    for (std::uint64_t active = header.active; active != 0; active &= active - 1) {
      std::uint64_t* const slot = payload.slots[std::countr_zero(active)];
      slot[0] = slot[1] = 0;
      ++served_;
    }
    std::atomic_ref(header.control).store(header.control & ~kReady, std::memory_order_release);
    at = next;
  }
}

std::uint64_t Hostcall::take_count() { return std::exchange(served_, 0); }

}  // namespace klab::gpu::hip
