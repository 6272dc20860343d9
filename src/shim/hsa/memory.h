// SPDX-License-Identifier: Apache-2.0
// The program's calls that give and take memory, into the tracker. Not here: what a dispatch reaches
// (snapshot.h).
#pragma once
#include "shim/hsa/api.h"
#include "shim/launch/tracker.h"

namespace klab::shim {

Tracker& tracker();

/// What the runtime itself knows of an address that no call seen here gave out. False: nothing.
bool ask_runtime(std::uint64_t address, Range& range);
/// Whether `agent` was given access to the memory at `address`, as the runtime knows it.
bool reaches(hsa_agent_t agent, std::uint64_t address);

void hook_memory(HsaApiTable& table);

}  // namespace klab::shim
