// SPDX-License-Identifier: Apache-2.0
// Agents and their memory pools, as far as a capture asks; telling klab of a device.
// Not here: allocations (memory.h).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "shim/hsa/api.h"

namespace klab::shim {

struct Pool {
  hsa_agent_t agent{};
  bool gpu = false;
  std::uint32_t flags = 0;  // hsa_amd_memory_pool_global_flag_t
};

/// Whose pool it is; agent 0: not known, or not of global memory. Thread: any.
Pool pool_of(hsa_amd_memory_pool_t pool);
/// The same of a region of the older calls.
Pool pool_of(hsa_region_t region);
bool is_gpu(hsa_agent_t agent);
std::vector<hsa_agent_t> gpus();

/// A pool of host memory that every agent can be given access to, and the agent that owns it. Pool 0: none.
struct HostPool {
  hsa_amd_memory_pool_t pool{};
  hsa_agent_t agent{};
};
HostPool host_pool();

/// Tells klab of a GPU, once; its number in this process.
std::uint32_t announce_agent(hsa_agent_t agent);

/// Nanoseconds of a duration or time that the runtime counts in its own ticks.
double ticks_to_ns(std::uint64_t ticks);

/// The 32 digits of a bundle for "GPU-18f68e602b8a790f" in `bytes`; false: it holds none ("GPU-XX").
bool parse_uuid(const std::string& text, std::uint8_t (&bytes)[16]);

/// The runtime goes; handles mean nothing from here on.
void forget_agents();
void agents_after_fork();

}  // namespace klab::shim
