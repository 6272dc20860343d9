// SPDX-License-Identifier: Apache-2.0
// Placing memory: anywhere, or at captured addresses in reserved address space.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <map>

#include <fmt/format.h>

#include "gpu/cuda/device.h"
#include "gpu/redzones.h"
#include "gpu/steps.h"

namespace klab::gpu::cuda {
namespace {

constexpr std::uint64_t kAddressSpace = 1ull << 57;
constexpr std::uint64_t kHostPage = 4096;
constexpr std::uint64_t kPooled = 1 << 20;
// Before and after memory that shares its pages with nothing of the capture; textures want such an alignment.
constexpr std::uint64_t kRedzone = 512;
constexpr std::uint64_t kMostGuarded = 512u << 20;  // bytes of redzones that are watched

bool inside(const AddressRange& outer, std::uint64_t address, std::uint64_t size) {
  return address >= outer.address && size <= outer.size && address - outer.address <= outer.size - size;
}
bool overlap(const AddressRange& a, const AddressRange& b) {
  return a.address < b.address + b.size && b.address < a.address + a.size;
}

}  // namespace

CudaDevice::Backing::~Backing() {
  if (device == nullptr || device->lost_) return;
  const Driver& driver = device->driver_;
  for (const Mapped& m : mapped) {
    (void)driver.MemUnmap(m.range.address, m.range.size);
    (void)driver.MemRelease(m.handle);
  }
  if (reserved.size != 0) device->kept_.push_back(reserved);
  if (allocation != 0 && pooled != 0)
    device->spare_[pooled].push_back(allocation);
  else if (allocation != 0)
    (void)driver.MemFree(allocation);
  if (host != nullptr && host_is_mapping) {
    (void)driver.MemHostUnregister(host);
    ::munmap(host, host_size);
  } else if (host != nullptr) {
    (void)driver.MemFreeHost(host);
  }
}

Result<std::shared_ptr<CudaDevice::Backing>> CudaDevice::allocate(const MemoryRequest& request,
                                                                  CUdeviceptr& address) {
  auto backing = std::make_shared<Backing>();
  backing->device = this;
  const std::size_t size = (request.size + 15) / 16 * 16 + 2 * kRedzone;
  if (request.kind == bundle::MemoryKind::pinned_host) {
    KLAB_CU_TRY(
        driver_.MemHostAlloc(&backing->host, size, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
        fmt::format("cuMemHostAlloc of {} bytes", size), ErrorCode::out_of_memory);
    KLAB_CU_TRY(driver_.MemHostGetDevicePointer(&address, backing->host, 0), "cuMemHostGetDevicePointer");
    backing->extents = {{address, size}};
    address += kRedzone;
    return backing;
  }
  if (size <= kPooled) {
    backing->pooled = std::max<std::uint64_t>(4096, std::bit_ceil(size));
    auto& spare = spare_[backing->pooled];
    if (!spare.empty()) {
      backing->allocation = spare.back();
      spare.pop_back();
      backing->extents = {{backing->allocation, backing->pooled}};
      address = backing->allocation + kRedzone;
      return backing;
    }
  }
  const std::size_t take = backing->pooled != 0 ? backing->pooled : size;
  KLAB_CU_TRY(driver_.MemAlloc(&backing->allocation, take), fmt::format("cuMemAlloc of {} bytes", take),
              ErrorCode::out_of_memory);
  backing->extents = {{backing->allocation, take}};
  address = backing->allocation + kRedzone;
  return backing;
}

Result<AddressRange> CudaDevice::reserve(const Cluster& cluster) {
  const AddressRange tight{
      cluster.pages.front().address,
      cluster.pages.back().address + cluster.pages.back().size - cluster.pages.front().address};
  // Address space of an earlier placing is still ours.
  for (std::size_t i = 0; i < kept_.size(); ++i)
    if (inside(kept_[i], tight.address, tight.size)) {
      const AddressRange found = kept_[i];
      kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(i));
      return found;
    }
  for (std::size_t i = 0; i < kept_.size();) {
    if (overlap(kept_[i], cluster.reserve)) {
      (void)driver_.MemAddressFree(kept_[i].address, kept_[i].size);
      kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  std::string got;
  for (const AddressRange& range : {cluster.reserve, tight}) {
    CUdeviceptr address = 0;
    const CUresult r = driver_.MemAddressReserve(&address, range.size, 0, range.address, 0);
    if (r == CUDA_SUCCESS && address == range.address) return range;
    got += fmt::format("{}[{:#x}, +{:#x}) asked, {}", got.empty() ? "" : "; ", range.address, range.size,
                       r == CUDA_SUCCESS ? fmt::format("{:#x} given", address) : result_name(r));
    if (r == CUDA_SUCCESS) (void)driver_.MemAddressFree(address, range.size);
  }
  return fail(ErrorCode::address_collision,
              "captured addresses are taken in this process: cuMemAddressReserve of " + got);
}

Result<std::shared_ptr<CudaDevice::Backing>> CudaDevice::map_cluster(const Cluster& cluster) {
  auto backing = std::make_shared<Backing>();
  backing->device = this;
  KLAB_TRY(backing->reserved, reserve(cluster));
  const CUmemLocation here{.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device_};
  const CUmemAllocationProp prop{.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = here};
  const CUmemAccessDesc access{.location = here, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  for (const AddressRange& pages : cluster.pages) {
    CUmemGenericAllocationHandle handle = 0;
    KLAB_CU_TRY(driver_.MemCreate(&handle, pages.size, &prop, 0),
                fmt::format("cuMemCreate of {} bytes", pages.size), ErrorCode::out_of_memory);
    if (const CUresult r = driver_.MemMap(pages.address, pages.size, 0, handle, 0); r != CUDA_SUCCESS) {
      (void)driver_.MemRelease(handle);
      return cu_fail(r, fmt::format("cuMemMap of [{:#x}, +{:#x})", pages.address, pages.size),
                     ErrorCode::address_collision);
    }
    backing->mapped.push_back({pages, handle});
    backing->extents.push_back(pages);
    KLAB_CU_TRY(driver_.MemSetAccess(pages.address, pages.size, &access, 1),
                fmt::format("cuMemSetAccess of [{:#x}, +{:#x})", pages.address, pages.size));
  }
  return backing;
}

/// Page-locked host memory at its captured address; requests that cannot have it are left for device memory.
Status CudaDevice::place_host(std::span<const MemoryRequest> requests, std::vector<Memory>& out) {
  std::vector<AddressRange> wanted, device;
  for (const MemoryRequest& r : requests)
    if (r.address != 0)
      (r.kind == bundle::MemoryKind::pinned_host ? wanted : device).push_back({r.address, r.size});
  const std::vector<Cluster> clusters = plan_clusters(device, granule_);
  for (const AddressRange& pages : merge_ranges(wanted, kHostPage)) {
    // Among device memory it would be in the way of a whole reservation.
    if (std::any_of(clusters.begin(), clusters.end(), [&](const Cluster& c) {
          return pages.address < c.reserve.address + c.reserve.size && c.reserve.address < pages.address + pages.size;
        }))
      continue;
    void* const at = reinterpret_cast<void*>(pages.address);
    void* const got = ::mmap(at, pages.size, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == MAP_FAILED) continue;
    if (got != at ||
        driver_.MemHostRegister(at, pages.size, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP) !=
            CUDA_SUCCESS) {
      ::munmap(got, pages.size);
      continue;
    }
    auto backing = std::make_shared<Backing>();
    backing->device = this;
    backing->host = at;
    backing->host_size = pages.size;
    backing->host_is_mapping = true;
    CUdeviceptr address = 0;
    if (driver_.MemHostGetDevicePointer(&address, at, 0) != CUDA_SUCCESS || address != pages.address)
      continue;
    backing->extents = {pages};
    for (std::size_t i = 0; i < requests.size(); ++i)
      if (requests[i].kind == bundle::MemoryKind::pinned_host &&
          inside(pages, requests[i].address, requests[i].size))
        out[i] = {backing, requests[i].address, requests[i].size, true};
  }
  return {};
}

Status CudaDevice::place_exact(std::span<const MemoryRequest> requests, std::vector<Memory>& out) {
  KLAB_TRY_VOID(place_host(requests, out));
  std::vector<AddressRange> wanted;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const MemoryRequest& r = requests[i];
    if (r.address == 0 || out[i].backing) continue;
    if (r.address >= kAddressSpace || r.size > kAddressSpace - r.address)
      return fail(ErrorCode::address_collision,
                  fmt::format("address {:#x} is outside the address space", r.address));
    wanted.push_back({r.address, r.size});
  }
  std::vector<std::shared_ptr<Backing>> backings;
  for (const Cluster& cluster : plan_clusters(wanted, granule_)) {
    auto mapped = map_cluster(with_tails(cluster, granule_));
    if (!mapped && !lost_) mapped = map_cluster(cluster);
    if (!mapped) return fail(std::move(mapped.error()));
    const std::shared_ptr<Backing> backing = std::move(*mapped);
    for (std::size_t i = 0; i < requests.size(); ++i)
      if (requests[i].address != 0 && !out[i].backing &&
          inside(backing->reserved, requests[i].address, requests[i].size))
        out[i] = {backing, requests[i].address, requests[i].size};
    backings.push_back(backing);
  }
  return {};
}

Result<std::vector<Placed>> CudaDevice::place(std::span<const MemoryRequest> requests, bool exact) {
  KLAB_TRY_VOID(check_alive());
  for (const MemoryRequest& r : requests) {
    if (!r.pool.empty())
      return fail(
          ErrorCode::unsupported,
          fmt::format(
              "--memory {} is refused on CUDA: memory is placed as it was captured (device memory, or "
              "page-locked host memory at its address), and another kind would be another program",
              r.pool),
          "leave out --memory");
    if (r.size == 0 || r.size > abilities().max_allocation)
      return fail(ErrorCode::out_of_memory,
                  fmt::format("{} bytes cannot be allocated on a device of {} bytes", r.size,
                              abilities().max_allocation));
  }
  std::vector<Memory> made(requests.size());
  if (exact) {
    if (!abilities().fixed_addresses)
      return fail(ErrorCode::address_collision,
                  "this device has no virtual memory management: no address can be wanted");
    if (auto placed = place_exact(requests, made); !placed) return lose(fail(std::move(placed.error())));
  }
  std::vector<Placed> placed;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (!made[i].backing) {
      CUdeviceptr address = 0;
      auto backing = allocate(requests[i], address);
      if (!backing) return lose(fail(std::move(backing.error())));
      made[i] = {std::move(*backing), address, requests[i].size,
                 requests[i].kind == bundle::MemoryKind::pinned_host};
    }
  }
  for (Memory& m : made) {
    placed.push_back({.id = next_id_, .address = m.address, .pool = m.host ? "host" : "device"});
    memories_[next_id_++] = std::move(m);
  }
  return placed;
}

Result<std::vector<Guard>> CudaDevice::guards(std::span<const MemoryId> ids) {
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

void CudaDevice::release(MemoryId id) {
  if (!lost_) memories_.erase(id);
}

Result<CudaDevice::Memory*> CudaDevice::memory(MemoryId id, std::uint64_t offset, std::uint64_t size) {
  return find_memory(memories_, id, offset, size, whole_words);
}

}  // namespace klab::gpu::cuda
