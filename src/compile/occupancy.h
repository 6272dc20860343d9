// SPDX-License-Identifier: Apache-2.0
// How many blocks of a kernel fit on one multiprocessor, by the limits of its compute capability.
// Not here: what was really resident (counters).
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "compile/cuda_facts.h"

namespace klab::compile {

/// Limits of one multiprocessor.
struct SmLimits {
  std::uint32_t number = 0;  // compute capability, 90
  std::uint32_t threads = 0, blocks = 0;
  std::uint32_t registers = 65536;
  std::uint32_t shared_bytes = 0;        // most that blocks can have together
  std::uint32_t block_shared_bytes = 0;  // most that one block can have, opted in
  std::uint32_t reserved_shared = 0;     // taken by the system from each block
};
/// Empty for a compute capability that is not in the table.
std::optional<SmLimits> sm_limits(std::uint32_t number);

struct Occupancy {
  std::uint32_t blocks = 0, warps = 0, max_warps = 0;  // on one multiprocessor
  double fraction = 0;                                 // warps / max_warps
  std::string limited_by;  // "registers", "shared memory", "threads", "blocks", or why nothing fits
};
void to_json(Json& j, const Occupancy& v);
void from_json(const Json& j, Occupancy& v);
/// Theoretical occupancy of blocks of `threads` with `dynamic_shared` bytes. Empty when the architecture is
/// not in the table or the registers are not known.
std::optional<Occupancy> occupancy(const KernelFacts& kernel, std::uint32_t arch, std::uint32_t threads,
                                   std::uint64_t dynamic_shared);

}  // namespace klab::compile
