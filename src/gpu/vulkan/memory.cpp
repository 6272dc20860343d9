// SPDX-License-Identifier: Apache-2.0
// Memory: three ways to place it, and moving bytes in and out.
#include "gpu/vulkan/device.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/units.h"

namespace klab::gpu::vulkan {
namespace {

constexpr std::uint64_t kRedzone = 256;             // bytes after each region, never bound
constexpr std::uint64_t kMostGuarded = 64u << 20;   // bytes of redzones that are watched
constexpr std::uint64_t kPlacement = 256;           // alignment of regions that share an allocation
constexpr std::uint64_t kShareBelow = 64u << 10;    // smaller regions share allocations: drivers cap their number
constexpr std::uint64_t kShared = 4u << 20;
constexpr std::uint64_t kStaging = 16u << 20;
constexpr std::uint64_t kTransferTimeout = 60'000'000'000;
constexpr VkMemoryPropertyFlags kSpecialTypes = VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT |
                                                VK_MEMORY_PROPERTY_PROTECTED_BIT |
                                                VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD;

// What a buffer in imported memory has to say of it.
constexpr VkExternalMemoryBufferCreateInfo kImportedBuffer{
    .sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
    .handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT};

std::uint64_t round_up(std::uint64_t n, std::uint64_t to) { return (n + to - 1) / to * to; }

}  // namespace

VulkanDevice::Allocation::~Allocation() {
  if (device == nullptr || device->lost_) return;
  if (memory != VK_NULL_HANDLE) device->call_.FreeMemory(device->device_, memory, nullptr);
  if (cluster.size != 0) device->ranges_->unclaim(cluster);
}

std::string VulkanDevice::pool_of(VkMemoryPropertyFlags flags) const {
  const bool device = flags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, host = flags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT;
  return device && host ? "device+host" : device ? "device" : "host";
}

Result<VkBuffer> VulkanDevice::create_buffer(std::uint64_t size, const void* next, VkBufferCreateFlags flags) const {
  const VkBufferCreateInfo info{
      .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
      .pNext = next,
      .flags = flags,
      .size = size,
      .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT |
               VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT |
               (abilities_.device_addresses ? VkBufferUsageFlags{VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT} : 0u)};
  VkBuffer made = VK_NULL_HANDLE;
  KLAB_VK_TRY(call_.CreateBuffer(device_, &info, nullptr, &made), "vkCreateBuffer");
  return made;
}

std::uint64_t VulkanDevice::device_address(VkBuffer buffer) const {
  if (!abilities_.device_addresses) return 0;
  const VkBufferDeviceAddressInfo info{.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO, .buffer = buffer};
  return call_.GetBufferDeviceAddress(device_, &info);
}

Result<std::uint32_t> VulkanDevice::memory_type(std::uint32_t allowed, const MemoryRequest& request) const {
  using Flags = VkMemoryPropertyFlags;
  constexpr Flags kDevice = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, kHost = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT;
  auto find = [&](Flags with, Flags without) -> std::optional<std::uint32_t> {
    for (std::uint32_t i = 0; i < memory_.memoryTypeCount; ++i) {
      const Flags f = memory_.memoryTypes[i].propertyFlags;
      if ((allowed >> i & 1) && (f & with) == with && !(f & without)) return i;
    }
    return std::nullopt;
  };
  auto first = [](std::initializer_list<std::optional<std::uint32_t>> choices) -> std::optional<std::uint32_t> {
    for (const auto& c : choices)
      if (c) return c;
    return std::nullopt;
  };
  constexpr Flags kCoherent = kHost | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  constexpr Flags kCached = kCoherent | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
  std::optional<std::uint32_t> type;
  if (request.pool == "device") {
    type = first({find(kDevice, kHost | kSpecialTypes), find(kDevice, kSpecialTypes)});
  } else if (request.pool == "host") {
    type = first({find(kCached, kDevice | kSpecialTypes), find(kCoherent, kDevice | kSpecialTypes),
                  find(kCached, kSpecialTypes), find(kCoherent, kSpecialTypes), find(kHost, kSpecialTypes)});
  } else {
    if (request.memory_flags != 0)
      type = first({find(request.memory_flags, ~request.memory_flags),
                    find(request.memory_flags, kSpecialTypes & ~request.memory_flags)});
    if (!type && request.kind == bundle::MemoryKind::pinned_host)
      type = first({find(kCached, kSpecialTypes), find(kCoherent, kSpecialTypes)});
    if (!type) type = first({find(kDevice, kHost | kSpecialTypes), find(kDevice, kSpecialTypes), find(0, kSpecialTypes)});
  }
  if (!type) return fail(ErrorCode::unsupported, fmt::format("{} has no memory type for pool \"{}\"", identity_.name, request.pool));
  return *type;
}

Result<std::shared_ptr<VulkanDevice::Allocation>> VulkanDevice::allocate(std::uint64_t size, std::uint32_t type,
                                                                         const void* next, bool capture_replay) {
  if (abilities_.max_allocation != 0 && size > abilities_.max_allocation)
    return fail(ErrorCode::out_of_memory, fmt::format("an allocation of {} is over this device's limit of {}",
                                                      format_bytes(size), format_bytes(abilities_.max_allocation)));
  VkMemoryAllocateFlagsInfo flags{.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO, .pNext = next};
  if (abilities_.device_addresses) flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
  if (capture_replay) flags.flags |= VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_CAPTURE_REPLAY_BIT;
  const VkMemoryAllocateInfo info{.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                  .pNext = flags.flags != 0 ? &flags : next,
                                  .allocationSize = size,
                                  .memoryTypeIndex = type};
  auto allocation = std::make_shared<Allocation>();
  allocation->flags = memory_.memoryTypes[type].propertyFlags;
  const VkResult made = call_.AllocateMemory(device_, &info, nullptr, &allocation->memory);
  if (made == VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS)
    return fail(ErrorCode::address_collision, "a captured address is taken on this device",
                "start the replay again", made);
  if (made != VK_SUCCESS) {
    auto error = vk_fail(made, "vkAllocateMemory", ErrorCode::out_of_memory);
    error.value().what += " for " + format_bytes(size);
    return error;
  }
  allocation->device = this;
  constexpr VkMemoryPropertyFlags kMapped = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  if ((allocation->flags & kMapped) == kMapped) {
    void* at = nullptr;
    if (call_.MapMemory(device_, allocation->memory, 0, VK_WHOLE_SIZE, 0, &at) == VK_SUCCESS)
      allocation->mapped = static_cast<std::byte*>(at);
  }
  return allocation;
}

Status VulkanDevice::place_ordinary(const std::vector<const MemoryRequest*>& requests, std::vector<Buffer>& out) {
  struct Open {
    std::shared_ptr<Allocation> allocation;
    std::uint64_t used = 0, size = 0;
  };
  std::map<std::uint32_t, Open> shared;
  for (const MemoryRequest* request : requests) {
    Buffer& b = out.emplace_back();
    b.size = request->size;
    b.capacity = round_up(std::max<std::uint64_t>(request->size, 1), 16);
    b.extra = kRedzone;
    KLAB_TRY(b.handle, create_buffer(b.capacity + b.extra));
    VkMemoryRequirements needs{};
    call_.GetBufferMemoryRequirements(device_, b.handle, &needs);
    KLAB_TRY(const std::uint32_t type, memory_type(needs.memoryTypeBits, *request));
    const std::uint64_t alignment = std::max(needs.alignment, kPlacement);
    const std::uint64_t size = round_up(needs.size, alignment);
    std::uint64_t at = 0;
    if (size <= kShareBelow) {
      Open& open = shared[type];
      at = round_up(open.used, alignment);
      if (!open.allocation || at + size > open.size) {
        open = {};
        std::uint64_t wanted = 0;  // of the small requests of this call: no more than they need
        for (const MemoryRequest* r : requests)
          if (r->size < kShareBelow) wanted += round_up(r->size + 16, alignment) + kRedzone + alignment;
        open.size = std::max(size, std::min(kShared, wanted));
        KLAB_TRY(open.allocation, allocate(open.size, type));
        open.allocation->guarded = open.size;
        at = 0;
      }
      open.used = at + size;
      b.allocation = open.allocation;
    } else {
      KLAB_TRY(b.allocation, allocate(size, type));
      b.allocation->guarded = size;
    }
    KLAB_VK_TRY(call_.BindBufferMemory(device_, b.handle, b.allocation->memory, at), "vkBindBufferMemory");
    if (b.allocation->mapped != nullptr) b.host = b.allocation->mapped + at;
    b.address = device_address(b.handle);
    b.at = at;
  }
  return {};
}

Result<std::shared_ptr<VulkanDevice::Allocation>> VulkanDevice::import_host(AddressRange cluster) {
  void* at = reinterpret_cast<void*>(cluster.address);
  VkMemoryHostPointerPropertiesEXT pointer{.sType = VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT};
  KLAB_VK_TRY(call_.GetMemoryHostPointerPropertiesEXT(
                  device_, VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT, at, &pointer),
              "vkGetMemoryHostPointerPropertiesEXT");
  std::uint32_t type = 0;
  while (type < memory_.memoryTypeCount && !(pointer.memoryTypeBits >> type & 1)) ++type;
  if (type == memory_.memoryTypeCount) return fail(ErrorCode::unsupported, "host memory cannot be imported here");
  const VkImportMemoryHostPointerInfoEXT import{.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT,
                                                .handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT,
                                                .pHostPointer = at};
  KLAB_TRY(auto allocation, allocate(cluster.size, type, &import));
  allocation->cluster = cluster;
  allocation->guarded = cluster.size;
  allocation->mapped = static_cast<std::byte*>(at);  // vkMapMemory of imported memory is optional
  return allocation;
}

Status VulkanDevice::place_imported(const std::vector<const MemoryRequest*>& requests, std::vector<Buffer>& out) {
  std::vector<AddressRange> wanted;
  for (const MemoryRequest* r : requests) wanted.push_back({r->address, std::max<std::uint64_t>(r->size, 1)});
  std::vector<std::shared_ptr<Allocation>> clusters;
  for (AddressRange range : merge_pages(wanted, host_import_alignment_)) {
    // A page behind it that is free becomes its redzone: a region may end where its page does.
    if (ranges_->hold_free({range.address + range.size, host_import_alignment_})) range.size += host_import_alignment_;
    KLAB_TRY_VOID(ranges_->claim(range));
    auto imported = import_host(range);
    if (!imported) {
      ranges_->unclaim(range);
      return fail(std::move(imported.error()));
    }
    clusters.push_back(std::move(*imported));
  }
  for (const MemoryRequest* request : requests) {
    const auto cluster = std::find_if(clusters.begin(), clusters.end(), [&](const auto& c) {
      return request->address >= c->cluster.address &&
             request->address + request->size <= c->cluster.address + c->cluster.size;
    });
    if (cluster == clusters.end())
      return fail(ErrorCode::address_collision,
                  fmt::format("address {:#x} with {} bytes cannot exist here", request->address, request->size));
    Buffer& b = out.emplace_back();
    b.allocation = *cluster;
    b.size = request->size;
    // A region may start anywhere in the program's buffer; a buffer of ours starts where the driver allows.
    const std::uint64_t end = (*cluster)->cluster.address + (*cluster)->cluster.size;
    std::uint64_t begin = request->address / kPlacement * kPlacement;
    b.base = request->address - begin;
    b.at = request->address - (*cluster)->cluster.address;
    b.capacity = std::min(round_up(std::max<std::uint64_t>(b.size, 1), 16), end - request->address);
    b.extra = std::min(kRedzone, end - request->address - b.capacity);
    KLAB_TRY(b.handle, create_buffer(b.base + b.capacity + b.extra, &kImportedBuffer));
    VkMemoryRequirements needs{};
    call_.GetBufferMemoryRequirements(device_, b.handle, &needs);
    if (begin % needs.alignment != 0)
      return fail(ErrorCode::unsupported, fmt::format("the driver asks for buffers aligned to {}", needs.alignment));
    KLAB_VK_TRY(call_.BindBufferMemory(device_, b.handle, (*cluster)->memory, begin - (*cluster)->cluster.address),
                "vkBindBufferMemory");
    b.address = device_address(b.handle) + b.base;
    b.host = reinterpret_cast<std::byte*>(request->address);
    if (b.address != request->address)
      return fail(ErrorCode::address_collision,
                  fmt::format("the driver put {:#x} at {:#x}", request->address, b.address));
  }
  return {};
}

// Regions of one captured VkDeviceMemory become one allocation again. The bind offset is the difference of the opaque
// values, which holds where both are virtual addresses; the resulting address is verified.
Status VulkanDevice::place_captured(const std::vector<const MemoryRequest*>& requests, std::vector<Buffer>& out) {
  std::map<std::uint64_t, std::vector<const MemoryRequest*>> by_memory;
  for (const MemoryRequest* r : requests) {
    if (r->opaque_address == 0 || r->opaque_address < r->opaque_memory)
      return fail(ErrorCode::unsupported,
                  fmt::format("address {:#x} was captured without a capture-replay address", r->address),
                  "replay with rewritten pointers");
    by_memory[r->opaque_memory].push_back(r);
  }
  std::map<const MemoryRequest*, Buffer> placed;
  auto undo = [&](tl::unexpected<Error> error) {
    for (auto& [request, b] : placed) out.push_back(std::move(b));  // the caller frees what is in `out`
    return error;
  };
  for (const auto& [opaque, members] : by_memory) {
    std::uint32_t types = ~0u;
    std::uint64_t end = 0;
    for (const MemoryRequest* r : members) {
      const VkBufferOpaqueCaptureAddressCreateInfo address{
          .sType = VK_STRUCTURE_TYPE_BUFFER_OPAQUE_CAPTURE_ADDRESS_CREATE_INFO,
          .opaqueCaptureAddress = r->opaque_address};
      Buffer& b = placed[r];
      b.size = r->size;
      b.capacity = round_up(std::max<std::uint64_t>(r->size, 1), 16);
      auto made = create_buffer(b.capacity, &address, VK_BUFFER_CREATE_DEVICE_ADDRESS_CAPTURE_REPLAY_BIT);
      if (!made) return undo(fail(std::move(made.error())));
      b.handle = *made;
      VkMemoryRequirements needs{};
      call_.GetBufferMemoryRequirements(device_, b.handle, &needs);
      types &= needs.memoryTypeBits;
      end = std::max(end, r->opaque_address - opaque + round_up(needs.size, needs.alignment));
    }
    auto type = memory_type(types, *members.front());
    if (!type) return undo(fail(std::move(type.error())));
    const VkMemoryOpaqueCaptureAddressAllocateInfo address{
        .sType = VK_STRUCTURE_TYPE_MEMORY_OPAQUE_CAPTURE_ADDRESS_ALLOCATE_INFO, .opaqueCaptureAddress = opaque};
    auto memory = allocate(end, *type, &address, true);
    if (!memory) return undo(fail(std::move(memory.error())));
    for (const MemoryRequest* r : members) {
      Buffer& b = placed[r];
      b.allocation = *memory;
      const std::uint64_t at = r->opaque_address - opaque;
      if (const VkResult bound = call_.BindBufferMemory(device_, b.handle, (*memory)->memory, at); bound != VK_SUCCESS)
        return undo(vk_fail(bound, "vkBindBufferMemory"));
      if ((*memory)->mapped != nullptr) b.host = (*memory)->mapped + at;
      b.address = device_address(b.handle);
      if (b.address != r->address)
        return undo(fail(ErrorCode::address_collision,
                         fmt::format("the driver put {:#x} at {:#x}", r->address, b.address)));
    }
  }
  for (const MemoryRequest* r : requests) out.push_back(std::move(placed[r]));
  return {};
}

Result<std::vector<Placed>> VulkanDevice::place(std::span<const MemoryRequest> requests, bool exact) {
  KLAB_TRY_VOID(check_alive());
  std::vector<const MemoryRequest*> fixed, ordinary;
  for (const MemoryRequest& r : requests) {
    if (!r.pool.empty() && r.pool != "device" && r.pool != "host")
      return fail(ErrorCode::usage, fmt::format("no memory pool \"{}\"; there are device and host", r.pool));
    if (!r.pool.empty() && !abilities_.memory_pools)
      return fail(ErrorCode::unsupported,
                  memory_.memoryTypeCount == 1
                      ? "this device has one memory type, so placement cannot differ"
                      : "all memory of this device is one pool, so placement cannot differ");
    if (r.needs_address && !abilities_.device_addresses)
      return fail(ErrorCode::unsupported, identity_.name + " has no buffer device addresses");
    (exact && r.address != 0 ? fixed : ordinary).push_back(&r);
  }
  if (!fixed.empty() && !abilities_.fixed_addresses)
    return fail(ErrorCode::unsupported, identity_.name + " cannot place memory at a given address",
                "replay with rewritten pointers");

  std::vector<Buffer> at_address, anywhere;
  Status placed = fixed.empty() ? Status{}
                  : abilities_.fixed_addresses_by == "imported host memory" ? place_imported(fixed, at_address)
                                                                            : place_captured(fixed, at_address);
  if (placed) placed = place_ordinary(ordinary, anywhere);
  if (!placed) {
    for (auto* list : {&at_address, &anywhere})
      for (Buffer& b : *list)
        if (b.handle != VK_NULL_HANDLE) call_.DestroyBuffer(device_, b.handle, nullptr);
    if (placed.error().code == ErrorCode::device_fault) lost_ = true;
    return fail(std::move(placed.error()));
  }

  std::vector<Placed> out;
  std::size_t next_fixed = 0, next_ordinary = 0;
  for (const MemoryRequest& r : requests) {
    Buffer& b = exact && r.address != 0 ? at_address[next_fixed++] : anywhere[next_ordinary++];
    const MemoryId id = next_id_++;
    out.push_back({id, b.address, pool_of(b.allocation->flags)});
    buffers_.emplace(id, std::move(b));
  }
  return out;
}

Result<std::vector<Guard>> VulkanDevice::guards(std::span<const MemoryId> memories) {
  KLAB_TRY_VOID(check_alive());
  struct Used {
    std::uint64_t from = 0, to = 0;
    MemoryId id = 0;
  };
  std::map<std::shared_ptr<Allocation>, std::vector<Used>> by_allocation;
  for (const MemoryId id : memories) {
    const auto found = buffers_.find(id);
    if (found == buffers_.end() || found->second.allocation->guarded == 0) continue;
    const Buffer& b = found->second;
    by_allocation[b.allocation].push_back({b.at, b.at + b.size, id});
  }
  // Hashed by address a guard may start at any word, else at what a descriptor's offset must be a multiple of.
  const std::uint64_t alignment = abilities_.device_addresses ? 4 : kPlacement;
  std::vector<Guard> out;
  std::uint64_t total = 0;
  for (auto& [allocation, used] : by_allocation) {
    std::sort(used.begin(), used.end(), [](const Used& a, const Used& b) { return a.from < b.from; });
    used.push_back({allocation->guarded, allocation->guarded, 0});
    std::uint64_t at = 0;
    MemoryId previous = 0;
    for (const Used& u : used) {
      const std::uint64_t from = round_up(at, alignment), to = u.from / 4 * 4;
      if (from < to && total + (to - from) <= kMostGuarded) {
        Buffer b;
        b.allocation = allocation;
        b.at = from;
        b.size = b.capacity = to - from;
        const std::uint64_t begin = from / kPlacement * kPlacement;
        b.base = from - begin;
        KLAB_TRY(b.handle, create_buffer(b.base + b.capacity, allocation->cluster.size != 0 ? &kImportedBuffer : nullptr));
        VkMemoryRequirements needs{};
        call_.GetBufferMemoryRequirements(device_, b.handle, &needs);
        const bool fits = begin % needs.alignment == 0 && begin + needs.size <= allocation->guarded;
        if (fits && call_.BindBufferMemory(device_, b.handle, allocation->memory, begin) == VK_SUCCESS) {
          if (const std::uint64_t address = device_address(b.handle); address != 0) b.address = address + b.base;
          if (allocation->mapped != nullptr) b.host = allocation->mapped + from;
          out.push_back({next_id_, b.address, b.size, previous != 0 ? previous : u.id, previous == 0});
          total += b.size;
          buffers_.emplace(next_id_++, std::move(b));
        } else {
          call_.DestroyBuffer(device_, b.handle, nullptr);
        }
      }
      at = std::max(at, u.to);
      previous = u.id;
    }
  }
  return out;
}

void VulkanDevice::release(MemoryId memory) {
  const auto found = buffers_.find(memory);
  if (found == buffers_.end() || lost_) return;
  call_.DestroyBuffer(device_, found->second.handle, nullptr);
  buffers_.erase(found);
}

Result<VulkanDevice::Buffer*> VulkanDevice::buffer(MemoryId id, std::uint64_t offset, std::uint64_t size) {
  const auto found = buffers_.find(id);
  if (found == buffers_.end()) return fail(ErrorCode::internal, fmt::format("no memory {}", id));
  Buffer& b = found->second;
  if (offset > b.capacity || size > b.capacity - offset)
    return fail(ErrorCode::internal,
                fmt::format("bytes {} to {} are outside memory {} of {} bytes", offset, offset + size, id, b.size));
  return &b;
}

std::byte* VulkanDevice::host_view(MemoryId memory) {
  const auto found = buffers_.find(memory);
  if (found == buffers_.end()) return nullptr;
  // Uncached memory can be mapped, but reading it is slower than a copy by the device.
  const bool cheap = is_cpu_ || (found->second.allocation->flags & VK_MEMORY_PROPERTY_HOST_CACHED_BIT);
  return cheap ? found->second.host : nullptr;
}

Result<VulkanDevice::Buffer*> VulkanDevice::staging() {
  if (staging_ == 0) {
    MemoryRequest request{.size = kStaging};
    request.memory_flags = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT |
                           VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
    KLAB_TRY(auto placed, place(std::span(&request, 1), false));
    staging_ = placed[0].id;
  }
  Buffer& b = buffers_.at(staging_);
  if (b.host == nullptr) return fail(ErrorCode::unsupported, "this device has no memory that the host can read");
  return &b;
}

Status VulkanDevice::transfer(MemoryId memory, std::uint64_t offset, std::span<std::byte> bytes, bool to_device) {
  KLAB_TRY(Buffer* const stage, staging());
  for (std::uint64_t done = 0; done < bytes.size();) {
    const std::uint64_t n = std::min<std::uint64_t>(kStaging, bytes.size() - done);
    if (to_device) std::memcpy(stage->host, bytes.data() + done, n);
    const Step step = to_device ? Step::copy_of(memory, offset + done, staging_, 0, n)
                                : Step::copy_of(staging_, 0, memory, offset + done, n);
    KLAB_TRY_VOID(run(std::span(&step, 1), kTransferTimeout));
    if (!to_device) std::memcpy(bytes.data() + done, stage->host, n);
    done += n;
  }
  return {};
}

Status VulkanDevice::upload(MemoryId memory, std::uint64_t offset, std::span<const std::byte> bytes) {
  KLAB_TRY_VOID(check_alive());
  KLAB_TRY(Buffer* const b, buffer(memory, offset, bytes.size()));
  if (bytes.empty()) return {};
  if (b->host != nullptr) {
    std::memcpy(b->host + offset, bytes.data(), bytes.size());
    return {};
  }
  return transfer(memory, offset, {const_cast<std::byte*>(bytes.data()), bytes.size()}, true);
}

Status VulkanDevice::download(MemoryId memory, std::uint64_t offset, std::span<std::byte> bytes) {
  KLAB_TRY_VOID(check_alive());
  KLAB_TRY(Buffer* const b, buffer(memory, offset, bytes.size()));
  if (bytes.empty()) return {};
  if (host_view(memory) != nullptr) {
    std::memcpy(bytes.data(), b->host + offset, bytes.size());
    return {};
  }
  return transfer(memory, offset, bytes, false);
}

}  // namespace klab::gpu::vulkan
