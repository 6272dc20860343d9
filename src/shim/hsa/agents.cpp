// SPDX-License-Identifier: Apache-2.0
#include "shim/hsa/agents.h"

#include <cctype>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <new>
#include <set>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "shim/common/link.h"

namespace klab::shim {
namespace {

constexpr std::uint32_t kAmd = 0x1002;
constexpr std::string_view kIsaPrefix = "amdgcn-amd-amdhsa--";

struct Agents {
  std::mutex lock;
  bool listed = false;
  std::vector<hsa_agent_t> gpus;
  std::unordered_map<std::uint64_t, Pool> pools;    // by handle
  std::unordered_map<std::uint64_t, Pool> regions;  // by handle
  HostPool host;
  std::set<std::uint64_t> told;
};
Agents& agents() {
  static Agents* const the = new Agents;
  return *the;
}

struct Listing {
  Agents* all;
  hsa_agent_t agent;
  bool gpu;
};

hsa_status_t list_pool(hsa_amd_memory_pool_t pool, void* data) {
  const auto& l = *static_cast<const Listing*>(data);
  const AmdExtTable& amd = api().amd;
  hsa_amd_segment_t segment{};
  Pool p;
  if (amd.hsa_amd_memory_pool_get_info_fn(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment) !=
          HSA_STATUS_SUCCESS ||
      segment != HSA_AMD_SEGMENT_GLOBAL ||
      amd.hsa_amd_memory_pool_get_info_fn(pool, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &p.flags) !=
          HSA_STATUS_SUCCESS)
    return HSA_STATUS_SUCCESS;
  p.agent = l.agent, p.gpu = l.gpu;
  l.all->pools[pool.handle] = p;
  bool may_allocate = false;
  amd.hsa_amd_memory_pool_get_info_fn(pool, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED, &may_allocate);
  constexpr std::uint32_t kKernarg = HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT;
  if (!l.gpu && may_allocate && (l.all->host.pool.handle == 0 || (p.flags & kKernarg) == 0))
    l.all->host = {pool, l.agent};
  return HSA_STATUS_SUCCESS;
}

hsa_status_t list_region(hsa_region_t region, void* data) {
  const auto& l = *static_cast<const Listing*>(data);
  hsa_region_segment_t segment{};
  Pool p;
  if (api().core.hsa_region_get_info_fn(region, HSA_REGION_INFO_SEGMENT, &segment) != HSA_STATUS_SUCCESS ||
      segment != HSA_REGION_SEGMENT_GLOBAL ||
      api().core.hsa_region_get_info_fn(region, HSA_REGION_INFO_GLOBAL_FLAGS, &p.flags) != HSA_STATUS_SUCCESS)
    return HSA_STATUS_SUCCESS;
  p.agent = l.agent, p.gpu = l.gpu;
  l.all->regions.emplace(region.handle, p);  // a GPU lists the host's regions too: the first has it
  return HSA_STATUS_SUCCESS;
}

hsa_status_t list_agent(hsa_agent_t agent, void* data) {
  hsa_device_type_t type{};
  if (api().core.hsa_agent_get_info_fn(agent, HSA_AGENT_INFO_DEVICE, &type) != HSA_STATUS_SUCCESS)
    return HSA_STATUS_SUCCESS;
  Listing l{static_cast<Agents*>(data), agent, type == HSA_DEVICE_TYPE_GPU};
  if (l.gpu) l.all->gpus.push_back(agent);
  api().amd.hsa_amd_agent_iterate_memory_pools_fn(agent, list_pool, &l);
  api().core.hsa_agent_iterate_regions_fn(agent, list_region, &l);
  return HSA_STATUS_SUCCESS;
}

// Held: the list's lock.
void list(Agents& all) {
  if (all.listed) return;
  all.listed = true;
  api().core.hsa_iterate_agents_fn(list_agent, &all);
}

template <class T>
T info(hsa_agent_t agent, int which) {
  T value{};
  if (api().core.hsa_agent_get_info_fn(agent, static_cast<hsa_agent_info_t>(which), &value) !=
      HSA_STATUS_SUCCESS)
    return T{};
  return value;
}

std::string text_info(hsa_agent_t agent, int which) {
  char text[256] = {};
  if (api().core.hsa_agent_get_info_fn(agent, static_cast<hsa_agent_info_t>(which), text) !=
      HSA_STATUS_SUCCESS)
    return {};
  text[sizeof text - 1] = '\0';
  return text;
}

std::string arch_of(hsa_agent_t agent) {
  const auto isa = info<hsa_isa_t>(agent, HSA_AGENT_INFO_ISA);
  std::uint32_t length = 0;
  if (isa.handle == 0 ||
      api().core.hsa_isa_get_info_alt_fn(isa, HSA_ISA_INFO_NAME_LENGTH, &length) != HSA_STATUS_SUCCESS ||
      length == 0 || length > 1024)
    return text_info(agent, HSA_AGENT_INFO_NAME);
  std::string name(length + 1, '\0');
  if (api().core.hsa_isa_get_info_alt_fn(isa, HSA_ISA_INFO_NAME, name.data()) != HSA_STATUS_SUCCESS)
    return text_info(agent, HSA_AGENT_INFO_NAME);
  name.resize(std::strlen(name.c_str()));
  return name.rfind(kIsaPrefix, 0) == 0 ? name.substr(kIsaPrefix.size()) : name;
}

std::string bus_address(hsa_agent_t agent) {
  const auto bdf = info<std::uint32_t>(agent, HSA_AMD_AGENT_INFO_BDFID);
  const auto domain = info<std::uint32_t>(agent, HSA_AMD_AGENT_INFO_DOMAIN);
  char text[32];
  std::snprintf(text, sizeof text, "%04x:%02x:%02x.%x", domain, bdf >> 8 & 0xff, bdf >> 3 & 0x1f, bdf & 7);
  return text;
}

// A runtime without the question answers with an error.
bool integrated(hsa_agent_t agent) {
  constexpr auto kMemoryProperties =
      static_cast<hsa_agent_info_t>(0xA114);  // HSA_AMD_AGENT_INFO_MEMORY_PROPERTIES
  std::uint8_t properties[8] = {};
  return api().core.hsa_agent_get_info_fn(agent, kMemoryProperties, properties) == HSA_STATUS_SUCCESS &&
         (properties[0] & 1) != 0;  // HSA_AMD_MEMORY_PROPERTY_AGENT_IS_APU
}

}  // namespace

Pool pool_of(hsa_amd_memory_pool_t pool) {
  Agents& all = agents();
  std::lock_guard hold(all.lock);
  list(all);
  const auto it = all.pools.find(pool.handle);
  return it != all.pools.end() ? it->second : Pool{};
}

Pool pool_of(hsa_region_t region) {
  Agents& all = agents();
  std::lock_guard hold(all.lock);
  list(all);
  const auto it = all.regions.find(region.handle);
  return it != all.regions.end() ? it->second : Pool{};
}

bool is_gpu(hsa_agent_t agent) {
  Agents& all = agents();
  std::lock_guard hold(all.lock);
  list(all);
  for (const hsa_agent_t gpu : all.gpus)
    if (gpu.handle == agent.handle) return true;
  return false;
}

std::vector<hsa_agent_t> gpus() {
  Agents& all = agents();
  std::lock_guard hold(all.lock);
  list(all);
  return all.gpus;
}

HostPool host_pool() {
  Agents& all = agents();
  std::lock_guard hold(all.lock);
  list(all);
  return all.host;
}

bool parse_uuid(const std::string& text, std::uint8_t (&bytes)[16]) {
  constexpr std::string_view kPrefix = "GPU-";
  if (text.rfind(kPrefix, 0) != 0 || text.size() != kPrefix.size() + 16) return false;
  std::memset(bytes, 0, sizeof bytes);
  for (std::size_t i = 0; i < 16; ++i) {
    const char c = static_cast<char>(std::tolower(static_cast<unsigned char>(text[kPrefix.size() + i])));
    if (!std::isxdigit(static_cast<unsigned char>(c))) return false;
    const auto digit = static_cast<std::uint8_t>(c <= '9' ? c - '0' : c - 'a' + 10);
    bytes[8 + i / 2] = static_cast<std::uint8_t>(bytes[8 + i / 2] << 4 | digit);
  }
  return true;
}

std::uint32_t announce_agent(hsa_agent_t agent) {
  Agents& all = agents();
  std::lock_guard hold(all.lock);
  list(all);
  klab_device record{};
  for (std::size_t i = 0; i < all.gpus.size(); ++i)
    if (all.gpus[i].handle == agent.handle) record.device = static_cast<std::uint32_t>(i);
  if (!all.told.insert(agent.handle).second) return record.device;
  record.api = KLAB_API_HIP;
  record.type = integrated(agent) ? 1 : 2;  // as VkPhysicalDeviceType has them
  record.vendor_id = kAmd;
  record.device_id = info<std::uint32_t>(agent, HSA_AMD_AGENT_INFO_CHIP_ID);
  std::uint16_t major = 0, minor = 0;
  api().core.hsa_system_get_info_fn(HSA_SYSTEM_INFO_VERSION_MAJOR, &major);
  api().core.hsa_system_get_info_fn(HSA_SYSTEM_INFO_VERSION_MINOR, &minor);
  record.api_version = 1000u * major + minor;
  record.has_uuid = parse_uuid(text_info(agent, HSA_AMD_AGENT_INFO_UUID), record.uuid) ? 1 : 0;
  std::string name = text_info(agent, HSA_AMD_AGENT_INFO_PRODUCT_NAME);
  if (name.empty()) name = text_info(agent, HSA_AGENT_INFO_NAME);
  const std::string_view maker = "ROCr";
  const char* build = nullptr;
  if (api().core.hsa_system_get_info_fn(HSA_AMD_SYSTEM_INFO_BUILD_VERSION, &build) != HSA_STATUS_SUCCESS)
    build = nullptr;
  const std::string version = build != nullptr ? build : "";
  record.name_length = static_cast<std::uint32_t>(name.size());
  record.driver_length = static_cast<std::uint32_t>(maker.size());
  record.driver_version_length = static_cast<std::uint32_t>(version.size());
  link().send(&record, sizeof record, KLAB_DEVICE, {name, maker, version});
  const std::string arch = arch_of(agent),
                    address = record.has_uuid != 0 ? std::string() : bus_address(agent);
  klab_device_detail detail{};
  detail.device = record.device;
  detail.arch_length = static_cast<std::uint32_t>(arch.size());
  detail.address_length = static_cast<std::uint32_t>(address.size());
  link().send(&detail, sizeof detail, KLAB_DEVICE_DETAIL, {arch, address});
  return record.device;
}

double ticks_to_ns(std::uint64_t ticks) {
  static const double kNsPerTick = [] {
    std::uint64_t frequency = 0;
    api().core.hsa_system_get_info_fn(HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY, &frequency);
    return frequency != 0 ? 1e9 / static_cast<double>(frequency) : 1.0;
  }();
  return static_cast<double>(ticks) * kNsPerTick;
}

void forget_agents() {
  Agents& all = agents();
  std::lock_guard hold(all.lock);
  all.listed = false;
  all.gpus.clear();
  all.pools.clear();
  all.regions.clear();
  all.host = {};
  all.told.clear();
}

void agents_after_fork() { new (&agents().lock) std::mutex; }

}  // namespace klab::shim
