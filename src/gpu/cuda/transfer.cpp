// SPDX-License-Identifier: Apache-2.0
// Host to device and back through page-locked memory, two halves in turn.
#include <algorithm>
#include <cstring>
#include <thread>

#include <fmt/format.h>

#include "gpu/cuda/device.h"

namespace klab::gpu::cuda {
namespace {

constexpr std::uint64_t kHalf = 32ull << 20;
constexpr std::uint64_t kAlign = 256;
constexpr std::uint64_t kPiece = 4ull << 20;  // of a download: copied out while the next is on its way
constexpr std::uint64_t kTransferTimeout = 60'000'000'000ull;
constexpr std::uint64_t kManyThreads = 8ull << 20;

/// One core copies at a fraction of the bus's speed.
void copy_bytes(std::byte* to, const std::byte* from, std::uint64_t size) {
  const std::uint64_t threads =
      size < kManyThreads ? 1 : std::clamp(std::thread::hardware_concurrency() / 2, 1u, 4u);
  if (threads == 1) {
    std::memcpy(to, from, size);
    return;
  }
  std::vector<std::jthread> helpers;
  const std::uint64_t share = (size / threads + 63) / 64 * 64;
  for (std::uint64_t at = share; at < size; at += share)
    helpers.emplace_back([=] { std::memcpy(to + at, from + at, std::min(share, size - at)); });
  std::memcpy(to, from, std::min(share, size));
}

}  // namespace

Status CudaDevice::ready_staging() {
  if (staging_ != nullptr) return {};
  void* memory = nullptr;
  KLAB_CU_TRY(driver_.MemHostAlloc(&memory, 2 * kHalf, 0),
              fmt::format("cuMemHostAlloc of {} bytes to stage through", 2 * kHalf));
  staging_ = static_cast<std::byte*>(memory);
  for (CUevent& e : staged_) {
    KLAB_TRY(e, make_event(CU_EVENT_DISABLE_TIMING));
  }
  return {};
}

Status CudaDevice::copy(CUdeviceptr to, CUdeviceptr from, std::uint64_t size) {
  // Addresses are unified: the driver knows of each where it lies.
  KLAB_CU_TRY(driver_.MemcpyAsync(to, from, size, stream_),
              fmt::format("cuMemcpyAsync of {} bytes, {:#x} to {:#x}", size, from, to),
              ErrorCode::device_fault);
  return {};
}

/// Returns while copies are under way: everything else uses the same stream.
Status CudaDevice::upload(MemoryId id, std::uint64_t offset, std::span<const std::byte> bytes) {
  KLAB_TRY_VOID(check_alive());
  KLAB_TRY(const Memory* m, memory(id, offset, bytes.size()));
  KLAB_TRY_VOID(ready_staging());
  while (!bytes.empty()) {
    if (used_ == kHalf) {
      if (const CUresult r = driver_.EventRecord(staged_[half_], stream_); r != CUDA_SUCCESS)
        return lose(cu_fail(r, "cuEventRecord after an upload"));
      in_flight_[half_] = true;
      half_ = 1 - half_;
      used_ = 0;
      if (in_flight_[half_]) KLAB_TRY_VOID(wait(staged_[half_], kTransferTimeout, "uploading"));
      in_flight_[half_] = false;
    }
    const std::uint64_t now = std::min<std::uint64_t>(bytes.size(), kHalf - used_);
    std::byte* const from = staging_ + half_ * kHalf + used_;
    copy_bytes(from, bytes.data(), now);
    if (auto s = copy(m->address + offset, reinterpret_cast<CUdeviceptr>(from), now); !s)
      return lose(fail(std::move(s.error())));
    used_ = std::min(kHalf, (used_ + now + kAlign - 1) / kAlign * kAlign);
    offset += now;
    bytes = bytes.subspan(now);
  }
  return {};
}

Status CudaDevice::download(MemoryId id, std::uint64_t offset, std::span<std::byte> bytes) {
  KLAB_TRY_VOID(check_alive());
  KLAB_TRY(const Memory* m, memory(id, offset, bytes.size()));
  if (bytes.empty()) return {};
  KLAB_TRY_VOID(ready_staging());
  // Whatever the halves hold is on its way already; copies of one stream keep their order, so the space may
  // be reused for the other direction at once.
  struct Piece {
    std::uint64_t at, size;
  };
  std::vector<Piece> pieces;
  for (std::uint64_t at = 0; at < bytes.size(); at += kPiece)
    pieces.push_back({at, std::min<std::uint64_t>(kPiece, bytes.size() - at)});
  auto begin = [&](std::size_t i) -> Status {
    std::byte* const to = staging_ + (i % 2) * kHalf;
    if (auto s = copy(reinterpret_cast<CUdeviceptr>(to), m->address + offset + pieces[i].at, pieces[i].size);
        !s)
      return lose(fail(std::move(s.error())));
    if (const CUresult r = driver_.EventRecord(staged_[i % 2], stream_); r != CUDA_SUCCESS)
      return lose(cu_fail(r, "cuEventRecord after a download"));
    return {};
  };
  KLAB_TRY_VOID(begin(0));
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (i + 1 < pieces.size()) KLAB_TRY_VOID(begin(i + 1));
    KLAB_TRY_VOID(wait(staged_[i % 2], kTransferTimeout, "downloading"));
    copy_bytes(bytes.data() + pieces[i].at, staging_ + (i % 2) * kHalf, pieces[i].size);
  }
  // The stream is empty now, so both halves are free.
  in_flight_[0] = in_flight_[1] = false;
  used_ = 0;
  return {};
}

}  // namespace klab::gpu::cuda
