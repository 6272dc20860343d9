// SPDX-License-Identifier: Apache-2.0
// What programs that use no HIP runtime share: HSA's agents and regions, code objects, packets.
#pragma once
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

#include <fstream>
#include <iterator>

#include "common.h"

namespace example {

inline void check_hsa(hsa_status_t status, const char* what) {
  if (status != HSA_STATUS_SUCCESS) die(std::string(what) + ": hsa_status_t " + std::to_string(status));
}
#define HSA(call) ::example::check_hsa((call), #call)

/// The last GPU and CPU that are listed, and where memory is taken from.
struct Hsa {
  hsa_agent_t gpu{}, cpu{};
  hsa_amd_memory_pool_t host_pool{};
  hsa_region_t kernarg{}, host{}, device{};
};

inline hsa_status_t on_region(hsa_region_t region, hsa_region_t* kernarg, hsa_region_t* other) {
  hsa_region_segment_t segment{};
  std::uint32_t flags = 0;
  bool may_allocate = false;
  hsa_region_get_info(region, HSA_REGION_INFO_SEGMENT, &segment);
  if (segment != HSA_REGION_SEGMENT_GLOBAL) return HSA_STATUS_SUCCESS;
  hsa_region_get_info(region, HSA_REGION_INFO_GLOBAL_FLAGS, &flags);
  hsa_region_get_info(region, HSA_REGION_INFO_RUNTIME_ALLOC_ALLOWED, &may_allocate);
  if ((flags & HSA_REGION_GLOBAL_FLAG_KERNARG) != 0 && kernarg != nullptr) *kernarg = region;
  if ((flags & HSA_REGION_GLOBAL_FLAG_KERNARG) == 0 && may_allocate && other->handle == 0) *other = region;
  return HSA_STATUS_SUCCESS;
}

inline Hsa start_hsa() {
  Hsa found;
  if (hsa_init() != HSA_STATUS_SUCCESS) skip("no HSA runtime");
  HSA(hsa_iterate_agents(
      [](hsa_agent_t agent, void* data) {
        auto& all = *static_cast<Hsa*>(data);
        hsa_device_type_t type;
        hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type);
        (type == HSA_DEVICE_TYPE_GPU ? all.gpu : all.cpu) = agent;
        return HSA_STATUS_SUCCESS;
      },
      &found));
  if (found.gpu.handle == 0) skip("no GPU");
  HSA(hsa_amd_agent_iterate_memory_pools(
      found.cpu,
      [](hsa_amd_memory_pool_t pool, void* data) {
        static_cast<Hsa*>(data)->host_pool = pool;
        return HSA_STATUS_SUCCESS;
      },
      &found));
  HSA(hsa_agent_iterate_regions(
      found.cpu,
      [](hsa_region_t region, void* data) {
        auto& all = *static_cast<Hsa*>(data);
        return on_region(region, &all.kernarg, &all.host);
      },
      &found));
  // A GPU lists the host's regions too; its own memory is coarse-grained.
  HSA(hsa_agent_iterate_regions(
      found.gpu,
      [](hsa_region_t region, void* data) {
        std::uint32_t flags = 0;
        hsa_region_get_info(region, HSA_REGION_INFO_GLOBAL_FLAGS, &flags);
        if ((flags & HSA_REGION_GLOBAL_FLAG_COARSE_GRAINED) == 0) return HSA_STATUS_SUCCESS;
        return on_region(region, nullptr, &static_cast<Hsa*>(data)->device);
      },
      &found));
  return found;
}

// The code object for a GPU in an offload bundle: its entries are offset, size, length of a name, the name.
inline std::string unbundle(const std::string& bundle) {
  std::uint64_t count = 0, at = 32, entry[3];
  if (bundle.compare(0, 24, "__CLANG_OFFLOAD_BUNDLE__") != 0) return bundle;
  std::memcpy(&count, bundle.data() + 24, 8);
  for (; count != 0; --count, at += 24 + entry[2]) {
    std::memcpy(entry, bundle.data() + at, 24);
    if (bundle.substr(at + 24, entry[2]).find("amdgcn") != std::string::npos)
      return bundle.substr(entry[0], entry[1]);
  }
  die("no code for a GPU");
}

inline hsa_executable_t load_code(const Hsa& hsa, const char* name) {
  std::ifstream file(program_folder() + name, std::ios::binary);
  const std::string code = unbundle(std::string(std::istreambuf_iterator<char>(file), {}));
  hsa_code_object_reader_t reader;
  hsa_executable_t executable;
  HSA(hsa_code_object_reader_create_from_memory(code.data(), code.size(), &reader));
  HSA(hsa_executable_create_alt(HSA_PROFILE_FULL, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, nullptr, &executable));
  HSA(hsa_executable_load_agent_code_object(executable, hsa.gpu, reader, nullptr, nullptr));
  HSA(hsa_executable_freeze(executable, nullptr));
  HSA(hsa_code_object_reader_destroy(reader));
  return executable;
}

struct Kernel {
  std::uint64_t object = 0;
  std::uint32_t kernarg_bytes = 0, group_bytes = 0, private_bytes = 0;
};

inline Kernel find_kernel(const Hsa& hsa, hsa_executable_t executable, const char* name) {
  hsa_executable_symbol_t symbol;
  Kernel k;
  HSA(hsa_executable_get_symbol_by_name(executable, name, &hsa.gpu, &symbol));
  HSA(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT, &k.object));
  HSA(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_SIZE, &k.kernarg_bytes));
  HSA(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_GROUP_SEGMENT_SIZE, &k.group_bytes));
  HSA(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_PRIVATE_SEGMENT_SIZE, &k.private_bytes));
  return k;
}

constexpr std::uint16_t kFences = 1 << HSA_PACKET_HEADER_BARRIER |
                                  HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE |
                                  HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE;

/// Writes a packet of 64 bytes whose first word is `head`, the word last: from then on the GPU may take it.
inline void put_packet(hsa_queue_t* queue, std::uint64_t index, const void* packet, std::uint32_t head) {
  char* place = static_cast<char*>(queue->base_address) + index % queue->size * 64;
  std::memcpy(place + 4, static_cast<const char*>(packet) + 4, 60);
  __atomic_store_n(reinterpret_cast<std::uint32_t*>(place), head, __ATOMIC_RELEASE);
}
inline std::uint32_t dispatch_head(const hsa_kernel_dispatch_packet_t& p) {
  return HSA_PACKET_TYPE_KERNEL_DISPATCH | kFences | std::uint32_t{p.setup} << 16;
}

}  // namespace example
