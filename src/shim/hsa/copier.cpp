// SPDX-License-Identifier: Apache-2.0
#include "shim/hsa/copier.h"

#include <algorithm>
#include <cstring>

#include "shim/common/link.h"
#include "shim/hsa/agents.h"
#include "shim/hsa/queues.h"
#include "shim/launch/own_memory.h"

namespace klab::shim {
namespace {
constexpr std::size_t kInFlight = 8;
}

std::string Copier::open(hsa_agent_t agent, std::uint64_t deadline_ns) {
  const AmdExtTable& amd = api().amd;
  agent_ = agent;
  deadline_ns_ = deadline_ns;
  host_ = host_pool();
  if (host_.pool.handle == 0) return "the runtime has no host memory to copy through";
  if (const hsa_status_t r =
          amd.hsa_amd_memory_pool_allocate_fn(host_.pool, kInFlight * KLAB_SLOT_BYTES, 0, &memory_);
      r != HSA_STATUS_SUCCESS) {
    memory_ = nullptr;
    return failed("hsa_amd_memory_pool_allocate", r);
  }
  // All of them: what lies on another GPU is copied by that one's engine.
  const std::vector<hsa_agent_t> all = gpus();
  if (const hsa_status_t r =
          amd.hsa_amd_agents_allow_access_fn(static_cast<std::uint32_t>(all.size()), all.data(), nullptr, memory_);
      r != HSA_STATUS_SUCCESS)
    return failed("hsa_amd_agents_allow_access", r);
  for (std::size_t i = 0; i < kInFlight; ++i) {
    const Place place{static_cast<std::byte*>(memory_) + i * KLAB_SLOT_BYTES, new_signal()};
    if (place.done.handle == 0) return "the runtime has no signal left";
    free_.push_back(place);
  }
  return {};
}

void Copier::close() {
  bool all_landed = true;
  for (const Flight& f : flights_) {  // given up: nothing may still write into memory that is given back
    all_landed = wait_signal(f.place.done, deadline_ns_) && all_landed;
    free_.push_back(f.place);
  }
  flights_.clear();
  if (!all_landed) return;  // leaked, on purpose
  for (const Place& p : free_) api().core.hsa_signal_destroy_fn(p.done);
  free_.clear();
  if (memory_ != nullptr) api().amd.hsa_amd_memory_pool_free_fn(memory_);
  memory_ = nullptr;
}

bool Copier::land(std::uint32_t kind, std::uint32_t region, bool only_scan, const Scan& scan,
                  std::string& why) {
  const Flight f = flights_.front();
  if (!wait_signal(f.place.done, deadline_ns_)) {
    why = "a copy of its memory did not end";
    return false;
  }
  const std::int64_t left = api().core.hsa_signal_load_scacquire_fn(f.place.done);
  flights_.pop_front();
  free_.push_back(f.place);
  if (left < 0) {  // how the runtime tells that a copy failed
    why = "a copy of its memory failed";
    return false;
  }
  if (!only_scan && !link().send_data(kind, region, f.offset, f.place.bytes, f.size)) return false;
  if (scan) scan(f.place.bytes, f.size);
  return true;
}

bool Copier::send_host(std::uint32_t kind, std::uint32_t region, const Range& range, bool only_scan,
                       const Scan& scan, std::string& why) {
  for (std::uint64_t at = 0; at < range.size; at += KLAB_SLOT_BYTES) {
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(KLAB_SLOT_BYTES, range.size - at));
    std::uint32_t slot = 0;
    std::byte* to = link().take_slot(&slot);
    if (to == nullptr) return false;
    // Of a pool it is there until it is freed, and frees wait for us; its pages are a driver's, which the
    // kernel does not read for anyone. The program's own pages may have gone.
    if (range.agent != 0)
      std::memcpy(to, reinterpret_cast<const void*>(range.host + at), n);
    else if (!read_own(range.host + at, to, n)) {
      link().give_back(slot);
      why = "host memory that it reaches, at " + hex(range.begin) + ", cannot be read any more";
      return false;
    }
    if (!only_scan && !link().send_slot(kind, region, at, slot, n)) return false;
    if (scan) scan(to, n);
    if (only_scan) link().give_back(slot);
  }
  return true;
}

bool Copier::send(std::uint32_t kind, std::uint32_t region, const Range& range, bool only_scan,
                  const Scan& scan, std::string& why) {
  if (only_scan && !scan) return true;
  if (range.host != 0) return send_host(kind, region, range, only_scan, scan, why);
  const hsa_agent_t from{range.agent != 0 ? range.agent : agent_.handle};
  for (std::uint64_t at = 0; at < range.size; at += KLAB_SLOT_BYTES) {
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(KLAB_SLOT_BYTES, range.size - at));
    if (free_.empty() && !land(kind, region, only_scan, scan, why)) return false;
    const Place place = free_.back();
    api().core.hsa_signal_store_screlease_fn(place.done, 1);
    if (const hsa_status_t r = api().amd.hsa_amd_memory_async_copy_fn(
            place.bytes, host_.agent, reinterpret_cast<const void*>(range.begin + at), from, n, 0, nullptr,
            place.done);
        r != HSA_STATUS_SUCCESS) {
      api().core.hsa_signal_store_screlease_fn(place.done, 0);
      why = "its memory at " + hex(range.begin) +
            " could not be read: " + failed("hsa_amd_memory_async_copy", r);
      return false;
    }
    free_.pop_back();
    flights_.push_back({place, n, at});
  }
  while (!flights_.empty())
    if (!land(kind, region, only_scan, scan, why)) return false;
  return true;
}

}  // namespace klab::shim
