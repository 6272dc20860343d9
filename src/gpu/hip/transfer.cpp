// SPDX-License-Identifier: Apache-2.0
// Host to device and back through host memory that both see, two halves in turn. Memory of the host is copied at once.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "gpu/hip/device.h"

namespace klab::gpu::hip {
namespace {

constexpr std::uint64_t kHalf = 16ull << 20;
constexpr std::uint64_t kPiece = 4ull << 20;  // of a download: copied out while the next is on its way
constexpr std::uint64_t kTransferTimeout = 60'000'000'000ull;

}  // namespace

Status HipDevice::ready_staging() {
  if (staging_ != nullptr) return {};
  KLAB_TRY(void* const memory, pool_allocate(facts_.host_pool, 2 * kHalf, " to stage through"));
  staging_ = static_cast<std::byte*>(memory);
  for (hsa_signal_t& s : staged_) {
    KLAB_TRY(s, make_signal(0));
  }
  return {};
}

/// Copies may overtake each other: callers wait where two touch the same bytes.
Status HipDevice::copy_async(void* to, bool to_host, const void* from, bool from_host, std::uint64_t size,
                             std::size_t half) {
  runtime_.hsa_signal_store_screlease(staged_[half], 1);
  KLAB_HSA_TRY(runtime_.hsa_amd_memory_async_copy(to, to_host ? facts_.cpu : facts_.agent, from,
                                                  from_host ? facts_.cpu : facts_.agent, size, 0, nullptr, staged_[half]),
               fmt::format("hsa_amd_memory_async_copy of {} bytes", size), ErrorCode::device_fault);
  in_flight_[half] = true;
  uploading_[half] = to_host ? AddressRange{} : AddressRange{reinterpret_cast<std::uint64_t>(to), size};
  return {};
}

Status HipDevice::settle() {
  for (const std::size_t half : {0u, 1u})
    if (in_flight_[half]) {
      KLAB_TRY_VOID(wait(staged_[half], kTransferTimeout, "transferring"));
      in_flight_[half] = false;
    }
  return {};
}

/// Returns while copies are under way: whatever comes next waits for them.
Status HipDevice::upload(MemoryId id, std::uint64_t offset, std::span<const std::byte> bytes) {
  KLAB_TRY_VOID(check_alive());
  KLAB_TRY(const Memory* m, memory(id, offset, bytes.size()));
  if (bytes.empty()) return {};
  if (m->host) {
    KLAB_TRY_VOID(settle());
    std::memcpy(reinterpret_cast<void*>(m->address + offset), bytes.data(), bytes.size());
    return {};
  }
  KLAB_TRY_VOID(ready_staging());
  while (!bytes.empty()) {
    half_ = 1 - half_;
    const AddressRange& other = uploading_[1 - half_];
    const std::uint64_t to = m->address + offset;
    if (in_flight_[1 - half_] && to < other.address + other.size && other.address < to + bytes.size())
      KLAB_TRY_VOID(settle());
    if (in_flight_[half_]) KLAB_TRY_VOID(wait(staged_[half_], kTransferTimeout, "uploading"));
    in_flight_[half_] = false;
    const std::uint64_t now = std::min<std::uint64_t>(bytes.size(), kHalf);
    std::byte* const from = staging_ + half_ * kHalf;
    std::memcpy(from, bytes.data(), now);
    if (auto s = copy_async(reinterpret_cast<void*>(to), false, from, true, now, half_); !s)
      return lost(std::move(s.error()));
    offset += now;
    bytes = bytes.subspan(now);
  }
  return {};
}

Status HipDevice::download(MemoryId id, std::uint64_t offset, std::span<std::byte> bytes) {
  KLAB_TRY_VOID(check_alive());
  KLAB_TRY(const Memory* m, memory(id, offset, bytes.size()));
  if (bytes.empty()) return {};
  KLAB_TRY_VOID(settle());
  if (m->host) {
    std::memcpy(bytes.data(), reinterpret_cast<const void*>(m->address + offset), bytes.size());
    return {};
  }
  KLAB_TRY_VOID(ready_staging());
  const std::uint64_t pieces = (bytes.size() + kPiece - 1) / kPiece;
  auto size_of = [&](std::uint64_t i) { return std::min<std::uint64_t>(kPiece, bytes.size() - i * kPiece); };
  auto begin = [&](std::uint64_t i) -> Status {
    if (auto s = copy_async(staging_ + (i % 2) * kHalf, true,
                            reinterpret_cast<const void*>(m->address + offset + i * kPiece), false, size_of(i), i % 2);
        !s)
      return lost(std::move(s.error()));
    return {};
  };
  KLAB_TRY_VOID(begin(0));
  for (std::uint64_t i = 0; i < pieces; ++i) {
    if (i + 1 < pieces) KLAB_TRY_VOID(begin(i + 1));
    KLAB_TRY_VOID(wait(staged_[i % 2], kTransferTimeout, "downloading"));
    in_flight_[i % 2] = false;
    std::memcpy(bytes.data() + i * kPiece, staging_ + (i % 2) * kHalf, size_of(i));
  }
  return {};
}

}  // namespace klab::gpu::hip
