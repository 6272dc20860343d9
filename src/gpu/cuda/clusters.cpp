// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/clusters.h"

#include <algorithm>

namespace klab::gpu::cuda {

std::vector<AddressRange> merge_ranges(std::span<const AddressRange> ranges, std::uint64_t grain) {
  std::vector<AddressRange> rounded;
  for (const AddressRange& r : ranges) {
    if (r.size == 0) continue;
    const std::uint64_t start = r.address / grain * grain;
    const std::uint64_t end = (r.address + r.size + grain - 1) / grain * grain;
    rounded.push_back({start, end - start});
  }
  std::sort(rounded.begin(), rounded.end(),
            [](const AddressRange& a, const AddressRange& b) { return a.address < b.address; });
  std::vector<AddressRange> merged;
  for (const AddressRange& r : rounded) {
    if (!merged.empty() && r.address <= merged.back().address + merged.back().size)
      merged.back().size = std::max(merged.back().size, r.address + r.size - merged.back().address);
    else
      merged.push_back(r);
  }
  return merged;
}

std::vector<Cluster> plan_clusters(std::span<const AddressRange> wanted, std::uint64_t granule) {
  std::vector<Cluster> clusters;
  for (const AddressRange& r : merge_ranges(wanted, kClusterGrain)) clusters.push_back({r, {}});
  std::size_t at = 0;
  for (const AddressRange& pages : merge_ranges(wanted, granule)) {
    while (clusters[at].reserve.address + clusters[at].reserve.size <= pages.address) ++at;
    clusters[at].pages.push_back(pages);
  }
  return clusters;
}

Cluster with_tails(Cluster cluster, std::uint64_t granule) {
  constexpr std::size_t kMostRuns = 64;
  if (cluster.pages.size() > kMostRuns) return cluster;
  const std::uint64_t end = cluster.reserve.address + cluster.reserve.size;
  for (std::size_t i = 0; i < cluster.pages.size(); ++i) {
    AddressRange& pages = cluster.pages[i];
    const std::uint64_t next = i + 1 < cluster.pages.size() ? cluster.pages[i + 1].address : end;
    // Runs stay apart: one that touched the next would be mapped as one.
    const bool last = i + 1 == cluster.pages.size();
    if (pages.address + pages.size + (last ? granule : 2 * granule) <= next) pages.size += granule;
  }
  return cluster;
}

}  // namespace klab::gpu::cuda
