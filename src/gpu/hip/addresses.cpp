// SPDX-License-Identifier: Apache-2.0
#include "gpu/hip/addresses.h"

#include <fmt/format.h>

namespace klab::gpu::hip {
namespace {

constexpr int kPinned = 1;  // MEMORY_TYPE_PINNED

// Bits of HsaMemFlags, as hsakmttypes.h has them; the runtime's pools are allocated with the same.
constexpr std::uint32_t kNonPaged = 1u << 0, kHostAccess = 1u << 6, kNoSubstitute = 1u << 7, kCoarseGrain = 1u << 13,
                        kFixedAddress = 1u << 15;

std::string show(const AddressRange& r) { return fmt::format("[{:#x}, +{:#x})", r.address, r.size); }

tl::unexpected<Error> taken(const AddressRange& range, std::string_view how) {
  return fail(ErrorCode::address_collision,
              fmt::format("captured addresses are taken in this process: {} of {}", how, show(range)));
}

}  // namespace

std::string FixedAddresses::ways(const Runtime& runtime) {
  if (runtime.has_vmem()) return "reserved virtual addresses";
  if (runtime.has_kmt())
    return GuidedReservation::works() ? "the driver library's own reservations, guided" : "the driver library's fixed addresses";
  return {};
}

Result<FixedRange> FixedAddresses::allocate(AddressRange range, bool host, std::uint32_t flags) {
  if (runtime_.has_vmem()) return by_vmem(range, host);
  if (runtime_.has_kmt()) return by_thunk(range, host, flags);
  return fail(ErrorCode::address_collision, "this runtime cannot place memory at a wanted address");
}

Result<FixedRange> FixedAddresses::by_vmem(AddressRange range, bool host) {
  void* const wanted = reinterpret_cast<void*>(range.address);
  void* got = nullptr;
  const hsa_status_t reserved = runtime_.vmem_reserve(&got, range.size, range.address, 0);
  if (reserved != HSA_STATUS_SUCCESS || got != wanted) {
    if (reserved == HSA_STATUS_SUCCESS) (void)runtime_.vmem_free(got, range.size);
    return taken(range, "hsa_amd_vmem_address_reserve");
  }
  FixedRange out{range, host, {}};
  hsa_status_t s = runtime_.vmem_create(host ? where_.host : where_.device, range.size, kPinned, 0, &out.handle);
  const char* call = "hsa_amd_vmem_handle_create";
  if (s == HSA_STATUS_SUCCESS) {
    call = "hsa_amd_vmem_map";
    s = runtime_.vmem_map(wanted, range.size, 0, out.handle, 0);
    if (s == HSA_STATUS_SUCCESS) {
      call = "hsa_amd_vmem_set_access";
      const VmemAccess access[] = {{HSA_ACCESS_PERMISSION_RW, where_.agent}, {HSA_ACCESS_PERMISSION_RW, where_.cpu}};
      s = runtime_.vmem_set_access(wanted, range.size, access, host ? 2 : 1);
      if (s == HSA_STATUS_SUCCESS) return out;
      (void)runtime_.vmem_unmap(wanted, range.size);
    }
    (void)runtime_.vmem_release(out.handle);
  }
  (void)runtime_.vmem_free(wanted, range.size);
  return hsa_fail(s, fmt::format("{} of {}", call, show(range)), ErrorCode::address_collision);
}

Result<FixedRange> FixedAddresses::by_thunk(AddressRange range, bool host, std::uint32_t flags) {
  std::uint32_t how = host ? kHostAccess : kNonPaged | kNoSubstitute;
  if (host ? (flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED) != 0
           : (flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED) == 0)
    how |= kCoarseGrain;
  const std::uint32_t node = host ? where_.cpu_node : where_.node;
  void* const wanted = reinterpret_cast<void*>(range.address);
  void* got = wanted;
  if (runtime_.kmt_alloc(node, range.size, how | kFixedAddress, &got) != 0) {
    if (!GuidedReservation::works()) return taken(range, "hsaKmtAllocMemory");
    got = nullptr;
    const GuidedReservation guided(range.address, range.size);
    if (runtime_.kmt_alloc(node, range.size, how, &got) != 0) return taken(range, "hsaKmtAllocMemory");
  }
  if (got != wanted) {
    (void)runtime_.kmt_free(got, range.size);
    return taken(range, fmt::format("hsaKmtAllocMemory ({:#x} given)", reinterpret_cast<std::uint64_t>(got)));
  }
  std::uint64_t gpu_address = 0;
  std::uint32_t nodes[] = {where_.node};
  if (runtime_.kmt_map(wanted, range.size, &gpu_address, 0, 1, nodes) != 0) {
    (void)runtime_.kmt_free(wanted, range.size);
    return fail(ErrorCode::out_of_memory, fmt::format("hsaKmtMapMemoryToGPUNodes of {}", show(range)));
  }
  return FixedRange{range, host, {}};
}

void FixedAddresses::release(const FixedRange& r) {
  void* const at = reinterpret_cast<void*>(r.range.address);
  if (runtime_.has_vmem()) {
    (void)runtime_.vmem_unmap(at, r.range.size);
    (void)runtime_.vmem_release(r.handle);
    (void)runtime_.vmem_free(at, r.range.size);
  } else {
    (void)runtime_.kmt_unmap(at);
    (void)runtime_.kmt_free(at, r.range.size);
  }
}

}  // namespace klab::gpu::hip
