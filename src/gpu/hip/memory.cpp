// SPDX-License-Identifier: Apache-2.0
// Placing memory: anywhere in the pool that the program used, or at captured addresses.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "gpu/hip/device.h"
#include "gpu/redzones.h"
#include "gpu/steps.h"

namespace klab::gpu::hip {
namespace {

constexpr std::uint64_t kAddressSpace = 1ull << 57;
constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kRedzone = 512;             // before and after memory that shares its pages with nothing captured
constexpr std::uint64_t kMostGuarded = 512u << 20;  // bytes of redzones that are watched

bool inside(const AddressRange& outer, std::uint64_t address, std::uint64_t size) {
  return address >= outer.address && size <= outer.size && address - outer.address <= outer.size - size;
}

/// Host memory: page-locked, and managed, which such systems keep in host memory or move there.
bool on_host(bundle::MemoryKind kind) {
  return kind == bundle::MemoryKind::pinned_host || kind == bundle::MemoryKind::managed;
}

/// Ranges rounded out to pages; those that share one are one. Neighbours stay apart: each has the alignment of its size.
std::vector<AddressRange> share_pages(std::vector<AddressRange> ranges) {
  for (AddressRange& r : ranges) {
    const std::uint64_t end = (r.address + r.size + kPage - 1) / kPage * kPage;
    r.address = r.address / kPage * kPage;
    r.size = end - r.address;
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const AddressRange& a, const AddressRange& b) { return a.address < b.address; });
  std::vector<AddressRange> out;
  for (const AddressRange& r : ranges) {
    if (!out.empty() && r.address < out.back().address + out.back().size)
      out.back().size = std::max(out.back().size, r.address + r.size - out.back().address);
    else
      out.push_back(r);
  }
  return out;
}

/// Ranges of one kind that are allocated together.
struct Run {
  AddressRange range;
  bool host = false;
  std::uint32_t flags = 0;
};

}  // namespace

HipDevice::Backing::~Backing() {
  if (device == nullptr || device->lost_) return;
  if (allocation != nullptr) (void)device->runtime_.hsa_amd_memory_pool_free(allocation);
  if (fixed) device->fixed_->release(*fixed);
}

Result<void*> HipDevice::pool_allocate(hsa_amd_memory_pool_t pool, std::uint64_t size, const char* what) {
  void* memory = nullptr;
  KLAB_HSA_TRY(runtime_.hsa_amd_memory_pool_allocate(pool, size, 0, &memory),
               fmt::format("hsa_amd_memory_pool_allocate of {} bytes{}", size, what), ErrorCode::out_of_memory);
  const hsa_agent_t agents[] = {facts_.agent};
  if (const hsa_status_t s = runtime_.hsa_amd_agents_allow_access(1, agents, nullptr, memory); s != HSA_STATUS_SUCCESS) {
    (void)runtime_.hsa_amd_memory_pool_free(memory);
    return hsa_fail(s, fmt::format("hsa_amd_agents_allow_access{}", what), ErrorCode::out_of_memory);
  }
  return memory;
}

hsa_amd_memory_pool_t HipDevice::pool_of(const MemoryRequest& r, bool& host) const {
  host = on_host(r.kind);
  if (host)
    return (r.memory_flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED) != 0 && facts_.host_coarse_pool.handle != 0
               ? facts_.host_coarse_pool
               : facts_.host_pool;
  return (r.memory_flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED) != 0 && facts_.device_fine_pool.handle != 0
             ? facts_.device_fine_pool
             : facts_.device_pool;
}

Result<std::shared_ptr<HipDevice::Backing>> HipDevice::allocate(const MemoryRequest& request, std::uint64_t& address) {
  auto backing = std::make_shared<Backing>();
  const hsa_amd_memory_pool_t pool = pool_of(request, backing->host);
  const std::uint64_t size = (request.size + 15) / 16 * 16 + 2 * kRedzone;
  KLAB_TRY(backing->allocation, pool_allocate(pool, size, ""));
  backing->device = this;
  const auto start = reinterpret_cast<std::uint64_t>(backing->allocation);
  backing->extents = {{start, size}};
  address = start + kRedzone;
  return backing;
}

Status HipDevice::place_exact(std::span<const MemoryRequest> requests, std::vector<Memory>& out) {
  std::map<std::pair<bool, std::uint32_t>, std::vector<AddressRange>> wanted;
  for (const MemoryRequest& r : requests) {
    if (r.address == 0) continue;
    if (r.address >= kAddressSpace || r.size > kAddressSpace - r.address)
      return fail(ErrorCode::address_collision, fmt::format("address {:#x} is outside the address space", r.address));
    wanted[{on_host(r.kind), r.memory_flags}].push_back({r.address, r.size});
  }
  std::vector<Run> runs;
  for (const auto& [how, ranges] : wanted)
    for (const AddressRange& range : share_pages(ranges)) runs.push_back({range, how.first, how.second});
  // Ascending: a reservation may be padded behind, where nothing of ours lies yet.
  std::sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.range.address < b.range.address; });
  std::vector<std::shared_ptr<Backing>> backings;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Run& run = runs[i];
    const std::uint64_t end = run.range.address + run.range.size;
    // A page behind it shows what is written there; runs stay apart by one more, where the next shall fault as it did.
    const bool room = i + 1 == runs.size() || runs[i + 1].range.address >= end + 2 * kPage;
    Result<FixedRange> got = fail(ErrorCode::address_collision, "");
    if (room) got = fixed_->allocate({run.range.address, run.range.size + kPage}, run.host, run.flags);
    if (!got) got = fixed_->allocate(run.range, run.host, run.flags);
    if (!got && run.host) got = fixed_->allocate(run.range, false, 0);  // the answer says that its kind changed
    if (!got) return fail(std::move(got.error()));
    auto backing = std::make_shared<Backing>();
    backing->device = this;
    backing->fixed = *got;
    backing->host = got->host;
    backing->extents = {got->range};
    for (std::size_t k = 0; k < requests.size(); ++k)
      if (requests[k].address != 0 && !out[k].backing && on_host(requests[k].kind) == run.host &&
          inside(run.range, requests[k].address, requests[k].size))
        out[k] = {backing, requests[k].address, requests[k].size, got->host};
    backings.push_back(std::move(backing));
  }
  return {};
}

Result<std::vector<Placed>> HipDevice::place(std::span<const MemoryRequest> requests, bool exact) {
  KLAB_TRY_VOID(check_alive());
  for (const MemoryRequest& r : requests) {
    if (!r.pool.empty())
      return fail(ErrorCode::unsupported,
                  fmt::format("--memory {} is refused on HIP: {}", r.pool,
                              identity().type == "integrated"
                                  ? "on a unified-memory APU device memory and GTT memory are the same memory, and only the "
                                    "grain of allocation differs"
                                  : "memory is placed as it was captured (each region in its own pool, at its address), and "
                                    "on unified-memory APUs device and GTT memory differ in the grain of allocation only"),
                  "leave out --memory");
    if (r.size == 0 || r.size > abilities().max_allocation)
      return fail(ErrorCode::out_of_memory, fmt::format("{} bytes cannot be allocated on a device of {} bytes", r.size,
                                                        abilities().max_allocation));
  }
  std::vector<Memory> made(requests.size());
  if (exact) {
    if (!abilities().fixed_addresses)
      return fail(ErrorCode::address_collision, "this runtime cannot place memory at a wanted address");
    if (auto placed = place_exact(requests, made); !placed) return lost(std::move(placed.error()));
  }
  std::vector<Placed> placed;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (!made[i].backing) {
      std::uint64_t address = 0;
      auto backing = allocate(requests[i], address);
      if (!backing) return lost(std::move(backing.error()));
      const bool host = (*backing)->host;
      made[i] = {std::move(*backing), address, requests[i].size, host};
    }
  }
  for (Memory& m : made) {
    placed.push_back({.id = next_id_, .address = m.address, .pool = m.host ? "host" : "device"});
    memories_[next_id_++] = std::move(m);
  }
  return placed;
}

Result<std::vector<Guard>> HipDevice::guards(std::span<const MemoryId> ids) {
  KLAB_TRY_VOID(check_alive());
  std::map<Backing*, std::vector<PlacedRange>> by_backing;
  for (const MemoryId id : ids)
    if (const auto it = memories_.find(id); it != memories_.end() && it->second.backing)
      by_backing[it->second.backing.get()].push_back({id, it->second.address, it->second.size});
  std::vector<Guard> out;
  std::uint64_t budget = kMostGuarded;
  for (auto& [backing, used] : by_backing)
    for (Guard& g : find_redzones(backing->extents, std::move(used), budget)) {
      g.memory = next_id_;
      const Memory neighbour = memories_.at(g.neighbour);
      memories_[next_id_++] = {neighbour.backing, g.address, g.size, neighbour.host};
      out.push_back(g);
    }
  return out;
}

void HipDevice::release(MemoryId id) {
  if (lost_) return;
  (void)settle();
  memories_.erase(id);
}

Result<HipDevice::Memory*> HipDevice::memory(MemoryId id, std::uint64_t offset, std::uint64_t size) {
  return find_memory(memories_, id, offset, size, whole_words);
}

}  // namespace klab::gpu::hip
