// SPDX-License-Identifier: Apache-2.0
#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace sim {
namespace {

constexpr u64 kPage = 4096, kReservedEnd = 1ull << 40;

u64 round_up(u64 value, u64 to) { return (value + to - 1) / to * to; }

/// HSA_RESERVE_SVM: the thunk keeps one aperture below 2^40, and only in it can an address be asked for.
bool reserved_aperture() {
  static const bool is = [] {
    const char* text = std::getenv("HSA_RESERVE_SVM");
    return text != nullptr && std::strcmp(text, "1") == 0;
  }();
  return is;
}

u64 setting(const char* name, u64 otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

constexpr int kReserve = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

/// Address space without any right, as the thunk takes it (ROCT 5.2.3): aligned by its size up to HSA_MAX_VA_ALIGN, with guard pages.
/// `hint`: exactly there, or not at all.
std::byte* reserve(u64 hint, u64 size) {
  if (hint != 0) {
    void* p = mmap(reinterpret_cast<void*>(hint), size, PROT_NONE, kReserve | MAP_FIXED_NOREPLACE, -1, 0);
    return p == MAP_FAILED ? nullptr : static_cast<std::byte*>(p);
  }
  static const u64 most = kPage << setting("HSA_MAX_VA_ALIGN", 9), guard = setting("HSA_SVM_GUARD_PAGES", 1) * kPage;
  u64 alignment = kPage;
  while (alignment < most && size >= 2 * alignment) alignment *= 2;
  const u64 total = size + alignment + 2 * guard - kPage;
  void* p = mmap(nullptr, total, PROT_NONE, kReserve, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  const u64 all = reinterpret_cast<u64>(p), at = round_up(all + guard, alignment), end = at + size + guard;
  if (at - guard > all) munmap(p, at - guard - all);
  if (all + total > end) munmap(reinterpret_cast<void*>(end), all + total - end);
  return reinterpret_cast<std::byte*>(at);  // its guards stay taken
}

bool back(std::byte* address, u64 size) {
  return mmap(address, size, PROT_READ | PROT_WRITE, kReserve | MAP_FIXED, -1, 0) != MAP_FAILED;
}

/// The GPU's view of memory that the CPU must not touch: other pages, while the CPU's are without any right.
std::byte* hide(std::byte* address, u64 size) {
  const int file = memfd_create("video memory", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(size)) != 0) return nullptr;
  void* mirror = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  close(file);
  if (mirror == MAP_FAILED || mprotect(address, size, PROT_NONE) != 0) return nullptr;
  return static_cast<std::byte*>(mirror);
}

}  // namespace

u32 gpu_count() {
  static const u32 count = static_cast<u32>(std::clamp<u64>(setting("KLAB_SIM_AGENTS", 1), 1, kMostGpus));
  return count;
}

u32& this_gpu() {
  thread_local u32 node = kFirstGpu;
  return node;
}

Memory& memory() {
  static Memory& one = *new Memory;
  return one;
}

bool large_bar() {
  static const bool is = std::getenv("KLAB_SIM_LARGE_BAR") != nullptr;
  return is;
}

Allocation* Memory::around(u64 address) {
  auto it = allocations_.upper_bound(address);
  if (it == allocations_.begin()) return nullptr;
  --it;
  return address - it->first < it->second.size ? &it->second : nullptr;
}

HSAKMT_STATUS Memory::allocate(u32 node, u64 size, HsaMemFlags flags, void** address) {
  if (size == 0 || size % kPage != 0) return HSAKMT_STATUS_INVALID_PARAMETER;
  const std::lock_guard lock(mutex_);
  const bool video = is_gpu(node) && !flags.ui32.Scratch;
  if (video && video_used_[node - kFirstGpu] + size > kVideoMemory) return HSAKMT_STATUS_NO_MEMORY;
  u64 hint = 0;
  if (flags.ui32.FixedAddress) {
    hint = reinterpret_cast<u64>(*address);
    if (!reserved_aperture() || hint % kPage != 0 || hint + size > kReservedEnd) return HSAKMT_STATUS_INVALID_PARAMETER;
  } else if (reserved_aperture()) {
    hint = next_reserved_;
  }
  std::byte* p = reserve(hint, size);
  if (p == nullptr || !back(p, size)) return HSAKMT_STATUS_NO_MEMORY;
  if (hint != 0 && !flags.ui32.FixedAddress) next_reserved_ = hint + size;
  Allocation a{.address = reinterpret_cast<u64>(p), .size = size, .flags = flags, .node = node};
  if (video && !flags.ui32.HostAccess) {
    a.mirror = hide(p, size);
    if (a.mirror == nullptr) {
      munmap(p, size);
      return HSAKMT_STATUS_NO_MEMORY;
    }
  }
  if (video) video_used_[node - kFirstGpu] += size;
  allocations_[a.address] = a;
  *address = p;
  log(1, "node %u: %llu bytes at %p, flags %x", node, static_cast<unsigned long long>(size), static_cast<void*>(p), flags.Value);
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS Memory::release(void* address) {
  const std::lock_guard lock(mutex_);
  const auto it = allocations_.find(reinterpret_cast<u64>(address));
  if (it == allocations_.end() || it->second.type != HSA_POINTER_ALLOCATED) return HSAKMT_STATUS_ERROR;
  ++generation_;
  const Allocation& a = it->second;
  if (is_gpu(a.node) && !a.flags.ui32.Scratch) video_used_[a.node - kFirstGpu] -= a.size;
  munmap(address, a.size);
  if (a.mirror != nullptr) munmap(a.mirror, a.size);
  allocations_.erase(it);
  return HSAKMT_STATUS_SUCCESS;
}

Allocation* Memory::named(const void* address) {
  const u64 a = reinterpret_cast<u64>(address);
  if (auto it = registered_.upper_bound(a); it != registered_.begin()) {
    Allocation& registered = allocations_.at((--it)->second);
    if (a - it->first < registered.size) return &registered;
  }
  return around(a);
}

HSAKMT_STATUS Memory::register_host(void* address, u64 size, HsaMemFlags flags) {
  const std::lock_guard lock(mutex_);
  const u64 begin = reinterpret_cast<u64>(address) / kPage * kPage;
  const u64 end = round_up(reinterpret_cast<u64>(address) + size, kPage);
  if (const auto it = registered_.find(begin); it != registered_.end())
    return allocations_.at(it->second).size >= end - begin ? HSAKMT_STATUS_SUCCESS : HSAKMT_STATUS_MEMORY_ALREADY_REGISTERED;
  // The GPU has it at an address of its own; nothing of the CPU's is there.
  std::byte* p = reserve(0, end - begin);
  if (p == nullptr) return HSAKMT_STATUS_NO_MEMORY;
  const u64 at = reinterpret_cast<u64>(p);
  allocations_[at] = {.address = at,
                      .size = end - begin,
                      .flags = flags,
                      .type = HSA_POINTER_REGISTERED_USER,
                      .mirror = reinterpret_cast<std::byte*>(begin)};
  registered_[begin] = at;
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS Memory::unregister_host(void* address) {
  const std::lock_guard lock(mutex_);
  const Allocation* a = named(address);
  if (a == nullptr || a->type != HSA_POINTER_REGISTERED_USER) return HSAKMT_STATUS_MEMORY_NOT_REGISTERED;
  ++generation_;
  munmap(reinterpret_cast<void*>(a->address), a->size);
  registered_.erase(reinterpret_cast<u64>(a->mirror));
  allocations_.erase(a->address);
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS Memory::map(void* address, u32 nodes, u64* gpu_address) {
  const std::lock_guard lock(mutex_);
  Allocation* a = named(address);
  if (a == nullptr) return HSAKMT_STATUS_ERROR;
  ++generation_;
  a->mapped |= nodes != 0 ? nodes : is_gpu(a->node) ? 1u << a->node : ~0u;
  if (gpu_address != nullptr) *gpu_address = a->address + static_cast<u64>(static_cast<std::byte*>(address) - a->cpu_address());
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS Memory::unmap(void* address) {
  const std::lock_guard lock(mutex_);
  Allocation* a = named(address);
  if (a == nullptr) return HSAKMT_STATUS_ERROR;
  ++generation_;
  a->mapped = 0;
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS Memory::set_user(const void* address, void* user) {
  const std::lock_guard lock(mutex_);
  Allocation* a = named(address);
  if (a == nullptr) return HSAKMT_STATUS_ERROR;
  a->user = user;
  return HSAKMT_STATUS_SUCCESS;
}

std::optional<Allocation> Memory::find(const void* address) {
  const std::lock_guard lock(mutex_);
  const Allocation* a = named(address);
  return a != nullptr ? std::optional(*a) : std::nullopt;
}

void* Memory::own_page(u64 size) {
  std::byte* p = reserve(0, size);
  if (p == nullptr || !back(p, size)) stop("no memory for a page of its own");
  const std::lock_guard lock(mutex_);
  allocations_[reinterpret_cast<u64>(p)] = {.address = reinterpret_cast<u64>(p), .size = size, .mapped = ~0u};
  return p;
}

Memory::Window Memory::window(u64 address, u64 size, bool write) {
  const std::lock_guard lock(mutex_);
  const Allocation* a = around(address);
  if (a == nullptr || (a->mapped >> this_gpu() & 1) == 0 || size > a->size - (address - a->address)) throw MemoryFault{address, write};
  if (write && a->flags.ui32.ReadOnly && a->type == HSA_POINTER_ALLOCATED) throw MemoryFault{address, write};
  return {.low = a->address,
          .high = a->address + a->size,
          .to_host = a->mirror != nullptr ? a->mirror - reinterpret_cast<std::byte*>(a->address) : 0,
          .writable = !a->flags.ui32.ReadOnly,
          .generation = generation_.load(std::memory_order_acquire)};
}

std::byte* Memory::host(u64 address, u64 size, bool write) {
  const Window w = window(address, size, write);
  return reinterpret_cast<std::byte*>(address) + w.to_host;
}

}  // namespace sim
