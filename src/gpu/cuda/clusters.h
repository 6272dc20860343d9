// SPDX-License-Identifier: Apache-2.0
// Which ranges of address space to reserve, and which pages to map in them, so that wanted addresses come
// out. Pure arithmetic. Not here: reserving and mapping (memory.cpp).
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "gpu/backend.h"

namespace klab::gpu::cuda {

/// The driver honours hints best for whole 32 MiB blocks that are reserved together with their neighbours.
inline constexpr std::uint64_t kClusterGrain = 32ull << 20;

struct Cluster {
  AddressRange reserve;             // multiples of kClusterGrain
  std::vector<AddressRange> pages;  // multiples of the granule, ascending, apart from each other
};

/// Clusters that cover all `wanted` ranges (any order, they may overlap; empty ones are passed over),
/// ascending. `granule`: a power of two up to kClusterGrain.
std::vector<Cluster> plan_clusters(std::span<const AddressRange> wanted, std::uint64_t granule);

/// The same with a granule behind each run of pages, where there is room in what is reserved: a region may end where its
/// page does, and what is written behind it shall be seen. Plans of many runs stay as they are.
Cluster with_tails(Cluster cluster, std::uint64_t granule);

/// The union of ranges rounded out to `grain`; ranges that touch become one. Ascending.
std::vector<AddressRange> merge_ranges(std::span<const AddressRange> ranges, std::uint64_t grain);

}  // namespace klab::gpu::cuda
