// SPDX-License-Identifier: Apache-2.0
#include "shim/cuda/copier.h"

#include <algorithm>

#include "shim/common/link.h"
#include "shim/cuda/drain.h"
#include "shim/cuda/driver.h"
#include "shim/launch/own_memory.h"

namespace klab::shim {
namespace {
constexpr std::size_t kInFlight = 8;  // below half of the ring's slots
static_assert(kInFlight <= KLAB_SLOTS / 2);
}  // namespace

std::string Copier::open(std::uint64_t deadline_ns) {
  const Driver& d = driver();
  deadline_ns_ = deadline_ns;
  if (const CUresult r = d.StreamCreate(&stream_, CU_STREAM_NON_BLOCKING); r != CUDA_SUCCESS) {
    stream_ = nullptr;
    return failed("cuStreamCreate", r);
  }
  for (std::size_t i = 0; i < kInFlight; ++i) {
    CUevent event = nullptr;
    if (const CUresult r = d.EventCreate(&event, CU_EVENT_DISABLE_TIMING); r != CUDA_SUCCESS)
      return failed("cuEventCreate", r);
    events_.push_back(event);
  }
  // Pinned, copies run at the bus's speed; without it they are slower and as right.
  if (std::byte* ring = link().ring(); ring != nullptr)
    if (d.MemHostRegister(ring, link().ring_bytes(), CU_MEMHOSTREGISTER_PORTABLE) == CUDA_SUCCESS)
      pinned_ = ring;
  return {};
}

void Copier::close() {
  const Driver& d = driver();
  for (const Flight& f : flights_) {  // given up: nothing may still write into a slot that is used again
    Streams::wait(f.event, deadline_ns_);
    link().give_back(f.slot);
  }
  flights_.clear();
  for (const CUevent e : events_) d.EventDestroy(e);
  events_.clear();
  if (stream_ != nullptr) d.StreamDestroy(stream_);
  stream_ = nullptr;
  if (pinned_ != nullptr) d.MemHostUnregister(pinned_);
  pinned_ = nullptr;
}

bool Copier::land(std::uint32_t kind, std::uint32_t region, bool only_scan, const Scan& scan,
                  std::string& why) {
  const Flight f = flights_.front();
  if (why = Streams::wait(f.event, deadline_ns_); !why.empty()) {
    why = "a copy of its memory failed: " + why;
    return false;
  }
  flights_.pop_front();
  events_.push_back(f.event);
  if (only_scan) {
    if (scan) scan(f.bytes, f.size);
    link().give_back(f.slot);
    return true;
  }
  if (!link().send_slot(kind, region, f.offset, f.slot, f.size)) return false;
  // klab only reads it, and a slot is used again only after the ring has gone round.
  if (scan) scan(f.bytes, f.size);
  return true;
}

bool Copier::send(std::uint32_t kind, std::uint32_t region, std::uint64_t address, std::uint64_t size,
                  bool host, bool only_scan, const Scan& scan, std::string& why) {
  const Driver& d = driver();
  if (only_scan && !scan) return true;
  for (std::uint64_t at = 0; at < size; at += KLAB_SLOT_BYTES) {
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(KLAB_SLOT_BYTES, size - at));
    if (host) {
      std::uint32_t slot = 0;
      std::byte* to = link().take_slot(&slot);
      if (to == nullptr) return false;
      if (!read_own(address + at, to, n)) {
        link().give_back(slot);
        why = "host memory that it reaches is registered with CUDA but cannot be read any more";
        return false;
      }
      if (!only_scan && !link().send_slot(kind, region, at, slot, n)) return false;
      if (scan) scan(to, n);
      if (only_scan) link().give_back(slot);
      continue;
    }
    if (events_.empty() && !land(kind, region, only_scan, scan, why)) return false;
    Flight f{};
    std::byte* to = link().take_slot(&f.slot);
    if (to == nullptr) return false;
    f.bytes = to, f.size = n, f.offset = at;
    CUresult r = d.MemcpyDtoHAsync(to, address + at, n, stream_);
    const char* call = "cuMemcpyDtoHAsync";
    if (r == CUDA_SUCCESS) {
      f.event = events_.back();
      r = d.EventRecord(f.event, stream_);
      call = "cuEventRecord";
    }
    if (r != CUDA_SUCCESS) {
      link().give_back(f.slot);
      why = "its memory could not be read: " + failed(call, r);
      return false;
    }
    events_.pop_back();
    flights_.push_back(f);
  }
  while (!flights_.empty())
    if (!land(kind, region, only_scan, scan, why)) return false;
  return true;
}

bool Copier::read_array(CUarray array, std::size_t row_bytes, std::size_t rows, std::size_t slices,
                        std::vector<std::byte>& bytes, std::string& why) {
  const Driver& d = driver();
  bytes.resize(row_bytes * rows * slices);
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.srcArray = array;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = bytes.data();
  copy.dstPitch = row_bytes;
  copy.dstHeight = rows;
  copy.WidthInBytes = row_bytes;
  copy.Height = rows;
  copy.Depth = slices;
  if (const CUresult r = d.Memcpy3DAsync(&copy, stream_); r != CUDA_SUCCESS) {
    why = "its texels could not be read: " + failed("cuMemcpy3DAsync", r);
    return false;
  }
  CUevent event = events_.back();
  if (const CUresult r = d.EventRecord(event, stream_); r != CUDA_SUCCESS) {
    why = "its texels could not be read: " + failed("cuEventRecord", r);
    return false;
  }
  if (why = Streams::wait(event, deadline_ns_); !why.empty()) {
    why = "its texels could not be read: " + why;
    return false;
  }
  return true;
}

}  // namespace klab::shim
