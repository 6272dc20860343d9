// SPDX-License-Identifier: Apache-2.0
// What the runtime says of agents and their memory pools.
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "bundle/emulated.h"
#include "gpu/hip/device.h"

namespace klab::gpu::hip {
namespace {

constexpr std::uint32_t kVendor = 0x1002;
// Of a runtime that is newer than the headers: HSA_AMD_AGENT_INFO_MEMORY_PROPERTIES, bit 0: an APU.
constexpr auto kMemoryProperties = static_cast<hsa_agent_info_t>(0xA114);

/// The kernel's driver, without which no hardware is behind an agent: something else answers the runtime.
bool has_driver() { return access("/dev/kfd", F_OK) == 0; }

template <class T>
T info(const Runtime& r, hsa_agent_t agent, int which, T value = {}) {
  (void)r.hsa_agent_get_info(agent, static_cast<hsa_agent_info_t>(which), &value);
  return value;
}

std::string text_info(const Runtime& r, hsa_agent_t agent, int which) {
  char text[65] = {};
  if (r.hsa_agent_get_info(agent, static_cast<hsa_agent_info_t>(which), text) != HSA_STATUS_SUCCESS) return {};
  std::string out(text, ::strnlen(text, 64));
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

struct Pool {
  hsa_amd_memory_pool_t pool{};
  std::uint32_t flags = 0;
  std::size_t size = 0;
  bool global = false, group = false, can_allocate = false;
};

std::vector<Pool> pools_of(const Runtime& r, hsa_agent_t agent) {
  std::pair<const Runtime*, std::vector<Pool>> out{&r, {}};
  (void)r.hsa_amd_agent_iterate_memory_pools(
      agent,
      [](hsa_amd_memory_pool_t pool, void* data) {
        auto& [runtime, list] = *static_cast<std::pair<const Runtime*, std::vector<Pool>>*>(data);
        Pool p{.pool = pool};
        hsa_amd_segment_t segment{};
        auto get = [&](hsa_amd_memory_pool_info_t what, void* value) {
          (void)runtime->hsa_amd_memory_pool_get_info(pool, what, value);
        };
        get(HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment);
        get(HSA_AMD_MEMORY_POOL_INFO_SIZE, &p.size);
        p.global = segment == HSA_AMD_SEGMENT_GLOBAL;
        p.group = segment == HSA_AMD_SEGMENT_GROUP;
        if (p.global) {
          get(HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &p.flags);
          get(HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED, &p.can_allocate);
        }
        list.push_back(p);
        return HSA_STATUS_SUCCESS;
      },
      &out);
  return std::move(out.second);
}

/// "gfx1030", "gfx90a:sramecc+:xnack-".
std::string arch_of(const Runtime& r, hsa_agent_t agent) {
  std::vector<hsa_isa_t> isas;
  (void)r.hsa_agent_iterate_isas(
      agent,
      [](hsa_isa_t isa, void* data) {
        static_cast<std::vector<hsa_isa_t>*>(data)->push_back(isa);
        return HSA_STATUS_SUCCESS;
      },
      &isas);
  if (isas.empty()) return {};
  std::uint32_t length = 0;
  if (r.hsa_isa_get_info_alt(isas.front(), HSA_ISA_INFO_NAME_LENGTH, &length) != HSA_STATUS_SUCCESS || length == 0 ||
      length > 256)
    return {};
  std::string name(length, '\0');
  (void)r.hsa_isa_get_info_alt(isas.front(), HSA_ISA_INFO_NAME, name.data());
  name.resize(::strnlen(name.data(), length));
  const std::size_t gfx = name.find("gfx");
  return gfx == std::string::npos ? name : name.substr(gfx);
}

/// 32 hexadecimal digits, or where there is no serial number the PCI address.
std::string uuid_of(const Runtime& r, hsa_agent_t agent) {
  std::string text = text_info(r, agent, HSA_AMD_AGENT_INFO_UUID);
  if (text.starts_with("GPU-")) {
    text = text.substr(4);
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
    if (text.size() == 16 && text.find_first_not_of("0123456789abcdef") == std::string::npos)
      return std::string(16, '0') + text;
  }
  const auto bdf = info<std::uint32_t>(r, agent, HSA_AMD_AGENT_INFO_BDFID);
  const auto domain = info<std::uint32_t>(r, agent, HSA_AMD_AGENT_INFO_DOMAIN);
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", domain, bdf >> 8 & 0xff, bdf >> 3 & 31, bdf & 7);
}

bool has_matrix_units(std::string_view arch) {
  for (const std::string_view family : {"gfx908", "gfx90a", "gfx94", "gfx95", "gfx11", "gfx12"})
    if (arch.starts_with(family)) return true;
  return false;
}

Facts read_facts(const Runtime& r, hsa_agent_t agent, hsa_agent_t cpu) {
  Facts f;
  f.agent = agent;
  f.cpu = cpu;
  f.node = info<std::uint32_t>(r, agent, HSA_AMD_AGENT_INFO_DRIVER_NODE_ID);
  f.cpu_node = info<std::uint32_t>(r, cpu, HSA_AMD_AGENT_INFO_DRIVER_NODE_ID);
  f.arch = arch_of(r, agent);
  f.simds_per_unit = info<std::uint32_t>(r, agent, HSA_AMD_AGENT_INFO_NUM_SIMDS_PER_CU);
  f.max_waves_per_unit = info<std::uint32_t>(r, agent, HSA_AMD_AGENT_INFO_MAX_WAVES_PER_CU);
  f.cooperative_queues = info<bool>(r, agent, HSA_AMD_AGENT_INFO_COOPERATIVE_QUEUES);
  Abilities& a = f.listed.abilities;
  for (const Pool& p : pools_of(r, agent)) {
    if (p.group) a.max_shared_bytes = static_cast<std::uint32_t>(p.size);
    if (!p.global || !p.can_allocate) continue;
    if ((p.flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED) != 0 && f.device_pool.handle == 0) {
      f.device_pool = p.pool;
      a.max_allocation = p.size;
    } else if ((p.flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED) != 0 && f.device_fine_pool.handle == 0) {
      f.device_fine_pool = p.pool;
    }
  }
  for (const Pool& p : pools_of(r, cpu)) {
    if (!p.global || !p.can_allocate) continue;
    hsa_amd_memory_pool_t& slot = (p.flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT) != 0     ? f.kernarg_pool
                                  : (p.flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED) != 0 ? f.host_pool
                                                                                                  : f.host_coarse_pool;
    if (slot.handle == 0) slot = p.pool;
  }
  if (f.host_pool.handle == 0) f.host_pool = f.kernarg_pool;
  if (f.kernarg_pool.handle == 0) f.kernarg_pool = f.host_pool;
  if (f.device_pool.handle == 0) f.device_pool = f.device_fine_pool;

  const auto memory = info<std::array<std::uint8_t, 8>>(r, agent, kMemoryProperties);
  std::string name = text_info(r, agent, HSA_AMD_AGENT_INFO_PRODUCT_NAME);
  if (name.empty()) name = text_info(r, agent, HSA_AGENT_INFO_NAME);
  f.listed.identity = {.api = "hip",
                       .name = std::move(name),
                       .driver = "ROCr",
                       .driver_version = r.build_version,
                       .api_version = r.version,
                       .uuid = uuid_of(r, agent),
                       .type = !has_driver() ? bundle::kEmulated : (memory[0] & 1) != 0 ? "integrated" : "discrete",
                       .vendor_id = kVendor,
                       .device_id = info<std::uint32_t>(r, agent, HSA_AMD_AGENT_INFO_CHIP_ID),
                       .arch = f.arch};
  a.fixed_addresses_by = FixedAddresses::ways(r);
  a.fixed_addresses = !a.fixed_addresses_by.empty();
  a.device_addresses = true;
  a.unaligned_hashes = a.double_values = true;
  a.executable_statistics = true;
  a.matrix_units = has_matrix_units(f.arch);
  a.compute_units = info<std::uint32_t>(r, agent, HSA_AMD_AGENT_INFO_COMPUTE_UNIT_COUNT);
  a.subgroup_size = info<std::uint32_t>(r, agent, HSA_AGENT_INFO_WAVEFRONT_SIZE);
  const bool both = f.arch.starts_with("gfx1");  // RDNA: the compiler chooses
  a.min_subgroup_size = both ? 32 : a.subgroup_size;
  a.max_subgroup_size = both ? 64 : a.subgroup_size;
  for (const std::uint32_t size : info<std::array<std::uint32_t, 4>>(r, agent, HSA_AGENT_INFO_CACHE_SIZE))
    a.last_level_cache = std::max<std::uint64_t>(a.last_level_cache, size);
  a.max_block_threads = info<std::uint32_t>(r, agent, HSA_AGENT_INFO_WORKGROUP_MAX_SIZE);
  const auto grid = info<hsa_dim3_t>(r, agent, HSA_AGENT_INFO_GRID_MAX_DIM);
  a.max_grid = {std::max(1u, grid.x), std::max(1u, grid.y), std::max(1u, grid.z)};
  return f;
}

}  // namespace

Result<std::vector<Facts>> read_all_facts(const Runtime& r) {
  struct Agents {
    const Runtime* runtime;
    std::vector<hsa_agent_t> gpus, cpus;
  } agents{&r, {}, {}};
  KLAB_HSA_TRY(r.hsa_iterate_agents(
                   [](hsa_agent_t agent, void* data) {
                     auto& all = *static_cast<Agents*>(data);
                     hsa_device_type_t type{};
                     (void)all.runtime->hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type);
                     if (type == HSA_DEVICE_TYPE_GPU) all.gpus.push_back(agent);
                     if (type == HSA_DEVICE_TYPE_CPU) all.cpus.push_back(agent);
                     return HSA_STATUS_SUCCESS;
                   },
                   &agents),
               "hsa_iterate_agents", ErrorCode::no_device);
  if (agents.gpus.empty() || agents.cpus.empty())
    return fail(ErrorCode::no_device, "the HSA runtime finds no GPU", "check rocminfo and ROCR_VISIBLE_DEVICES");
  std::vector<Facts> out;
  for (const hsa_agent_t gpu : agents.gpus) out.push_back(read_facts(r, gpu, agents.cpus.front()));
  return out;
}

}  // namespace klab::gpu::hip
