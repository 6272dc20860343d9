// SPDX-License-Identifier: Apache-2.0
// mmap at fixed addresses.
#include "gpu/vulkan/host_ranges.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/units.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

namespace klab::gpu::vulkan {
namespace {

constexpr std::uint64_t kTop = 1ull << 56;

void* pointer(std::uint64_t address) { return reinterpret_cast<void*>(address); }

// A kernel that does not know MAP_FIXED_NOREPLACE takes the address as a hint, so the answer is compared.
bool map_fresh(AddressRange r, int protection) {
  void* at = mmap(pointer(r.address), r.size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
                  -1, 0);
  if (at == pointer(r.address)) return true;
  if (at != MAP_FAILED) {
    munmap(at, r.size);
    errno = EEXIST;
  }
  return false;
}

}  // namespace

std::vector<AddressRange> merge_pages(std::vector<AddressRange> ranges, std::uint64_t page) {
  std::vector<AddressRange> rounded;
  for (const AddressRange& r : ranges) {
    if (r.address == 0 || r.size == 0 || r.address >= kTop || r.size >= kTop) continue;
    const std::uint64_t begin = r.address / page * page;
    rounded.push_back({begin, (r.address + r.size + page - 1) / page * page - begin});
  }
  std::sort(rounded.begin(), rounded.end(), [](auto& a, auto& b) { return a.address < b.address; });
  std::vector<AddressRange> merged;
  for (const AddressRange& r : rounded) {
    if (!merged.empty() && merged.back().address + merged.back().size >= r.address)
      merged.back().size = std::max(merged.back().size, r.address + r.size - merged.back().address);
    else
      merged.push_back(r);
  }
  return merged;
}

HostRanges::~HostRanges() { release_held(); }

void HostRanges::release_held() {
  for (const AddressRange& r : held_) munmap(pointer(r.address), r.size);
  held_.clear();
}

void HostRanges::hold(std::span<const AddressRange> ranges) {
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  for (const AddressRange& r : merge_pages({ranges.begin(), ranges.end()}, page))
    if (map_fresh(r, PROT_NONE)) held_.push_back(r);
}

bool HostRanges::hold_free(AddressRange range) {
  if (!map_fresh(range, PROT_NONE)) return false;
  held_.push_back(range);
  return true;
}

void HostRanges::forget(AddressRange range) {
  const std::uint64_t end = range.address + range.size;
  std::vector<AddressRange> kept;
  for (const AddressRange& r : held_) {
    const std::uint64_t r_end = r.address + r.size;
    if (r_end <= range.address || r.address >= end) {
      kept.push_back(r);
      continue;
    }
    if (r.address < range.address) kept.push_back({r.address, range.address - r.address});
    if (r_end > end) kept.push_back({end, r_end - end});
  }
  held_ = std::move(kept);
}

Result<std::byte*> HostRanges::claim(AddressRange range) {
  const std::uint64_t end = range.address + range.size;
  const bool ours = std::any_of(held_.begin(), held_.end(), [&](const AddressRange& r) {
    return r.address <= range.address && r.address + r.size >= end;
  });
  bool mapped = false;
  if (ours) {
    mapped = mmap(pointer(range.address), range.size, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
  } else {
    // Held in part: those parts are given up first, since NOREPLACE would find them taken.
    for (const AddressRange& r : held_) {
      const std::uint64_t begin = std::max(r.address, range.address), stop = std::min(r.address + r.size, end);
      if (begin < stop) munmap(pointer(begin), stop - begin);
    }
    forget(range);
    mapped = map_fresh(range, PROT_READ | PROT_WRITE);
  }
  if (!mapped) {
    const int why = errno;
    const std::string what = fmt::format("addresses {:#x} to {:#x} ({})", range.address, end, format_bytes(range.size));
    if (why == ENOMEM) return fail(ErrorCode::out_of_memory, "no memory for " + what, {}, why);
    return fail(ErrorCode::address_collision,
                fmt::format("{} are taken in this process: {}", what, std::strerror(why)),
                "start the replay again: addresses move from process to process", why);
  }
  forget(range);
  return static_cast<std::byte*>(pointer(range.address));
}

void HostRanges::unclaim(AddressRange range) {
  if (mmap(pointer(range.address), range.size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) !=
      MAP_FAILED)
    held_.push_back(range);
}

}  // namespace klab::gpu::vulkan
