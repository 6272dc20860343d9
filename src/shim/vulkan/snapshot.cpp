// SPDX-License-Identifier: Apache-2.0
#include "shim/vulkan/snapshot.h"

#include <algorithm>
#include <cstring>

#include "shim/common/scan.h"
#include "shim/vulkan/names.h"
#include "shim/vulkan/reader.h"

namespace klab::shim {
namespace {

constexpr std::uint32_t kNoRegion = 0xffffffff;

std::string place(const SlotName& at, std::uint32_t element, std::uint32_t count) {
  std::string text = "binding " + std::to_string(at.binding) + " of set " + std::to_string(at.set);
  if (count > 1) text += ", element " + std::to_string(element) + ",";
  return text;
}

bool readable(const Buffer& b) { return b.alive && b.memory && b.memory->alive; }

}  // namespace

void refuse(const Piece& piece, const std::string& why) {
  const std::string_view text = std::string_view(why).substr(0, KLAB_MAX_TEXT);
  const std::string_view name = piece.mark->kernel->name;
  klab_text record{};
  record.nth = piece.nth;
  record.kernel = piece.mark->kernel->id;
  record.what_length = static_cast<std::uint32_t>(name.size());
  record.why_length = static_cast<std::uint32_t>(text.size());
  link().send(&record, sizeof record, KLAB_REFUSED, {name, text});
}

bool Snapshot::before() {
  d_.memory_lock.lock();
  locked_ = true;
  build_clusters();
  const Kernel& k = *piece_.mark->kernel;
  const DispatchState& s = *piece_.mark->state;
  refusal_ = k.refusal;
  if (refusal_.empty()) refusal_ = read_grid();
  if (refusal_.empty()) refusal_ = collect_bindings();
  if (refusal_.empty() && link().config().scope == KLAB_SCOPE_ALL)
    for (const Cluster& c : clusters_) reach(live_[c.first], KLAB_REACHED_SCOPE);
  // Push constants are laid out by the program: a pointer may start at any word.
  if (refusal_.empty() && scanning())
    for (std::size_t i = 0; i + 8 <= s.push_constants.size(); i += 4) {
      std::uint64_t word;
      std::memcpy(&word, &s.push_constants[i], 8);
      scan_word(word);
    }
  if (!refusal_.empty()) {
    refuse(piece_, refusal_);
    return false;
  }
  send_head();
  // Regions are found while others are sent; each is paid for before its data goes.
  std::size_t paid = 0;
  for (std::size_t i = 0; i < regions_.size(); ++i) {
    if (paid < regions_.size()) {
      paid = regions_.size();
      if (!ask_size(false)) return false;
    }
    if (!announce(regions_[i]) || !send(i, KLAB_DATA_PRE, scanning())) {
      if (!refusal_.empty()) refuse(piece_, refusal_);
      return false;
    }
  }
  if (count_only_) {
    ask_size(true);
    return false;
  }
  return link().live();
}

void Snapshot::after(double program_ns) {
  for (std::size_t i = 0; i < regions_.size(); ++i)
    if (!send(i, KLAB_DATA_POST, false)) {
      if (!refusal_.empty()) refuse(piece_, refusal_);
      return;
    }
  klab_capture_end end{};
  end.program_ns = program_ns;
  link().send(&end, sizeof end, KLAB_CAPTURE_END);
}

Snapshot::~Snapshot() {
  if (locked_) d_.memory_lock.unlock();
}

bool Snapshot::scanning() const { return link().config().scope == KLAB_SCOPE_REACHABLE && !ranges_.empty(); }

// Buffers that overlap in one allocation become one region: their bytes are the same bytes.
void Snapshot::build_clusters() {
  std::lock_guard hold(d_.lock);
  for (const auto& [handle, b] : d_.buffers)
    if (readable(*b)) live_.push_back(b);
  std::sort(live_.begin(), live_.end(), [](const auto& a, const auto& b) {
    if (a->memory->id != b->memory->id) return a->memory->id < b->memory->id;
    return a->offset != b->offset ? a->offset < b->offset : a->size > b->size;
  });
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < live_.size(); ++i) {
    const Buffer& b = *live_[i];
    const bool joins = i != 0 && live_[i - 1]->memory == b.memory && b.offset < end;
    if (!joins) clusters_.push_back({i, i, kNoRegion});
    clusters_.back().last = i;
    cluster_of_[live_[i].get()] = clusters_.size() - 1;
    end = joins ? std::max(end, b.offset + b.size) : b.offset + b.size;
    if (b.address != 0) ranges_.push_back({b.address, b.address + b.size, i});
  }
  std::sort(ranges_.begin(), ranges_.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  std::size_t kept = 0;
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    if (kept != 0 && ranges_[i].begin < ranges_[kept - 1].end)
      ranges_[kept - 1].end = std::max(ranges_[kept - 1].end, ranges_[i].end);
    else
      ranges_[kept++] = ranges_[i];
  }
  ranges_.resize(kept);
  if (kept != 0) {
    low_ = ranges_.front().begin;
    high_ = ranges_.back().end;
  }
}

std::string Snapshot::read_grid() {
  const DispatchState& s = *piece_.mark->state;
  std::copy(s.grid, s.grid + 3, grid_);
  if (s.call != KLAB_CALL_DISPATCH_INDIRECT) return {};
  if (!s.indirect || !readable(*s.indirect) || s.indirect_offset > s.indirect->size ||
      s.indirect->size - s.indirect_offset < 12)
    return "its indirect buffer cannot be read";
  Reader reader(d_, queue_);
  const std::byte* p = reader.open(s.indirect->memory, {s.indirect})
                           ? reader.at(s.indirect->offset + s.indirect_offset, 12)
                           : nullptr;
  if (p == nullptr) return "its indirect buffer cannot be read";
  std::memcpy(grid_, p, 12);
  return {};
}

std::uint32_t Snapshot::reach(const Ref<Buffer>& buffer, std::uint32_t how) {
  const auto it = cluster_of_.find(buffer.get());
  if (it == cluster_of_.end()) return kNoRegion;
  Cluster& c = clusters_[it->second];
  if (c.region != kNoRegion) return c.region;
  Region r;
  r.memory = buffer->memory;
  r.offset = live_[c.first]->offset;
  std::uint64_t end = 0;
  for (std::size_t i = c.first; i <= c.last; ++i) {
    const Ref<Buffer>& b = live_[i];
    r.buffers.push_back(b);
    end = std::max(end, b->offset + b->size);
    if ((b->flags & (VK_BUFFER_CREATE_SPARSE_BINDING_BIT | VK_BUFFER_CREATE_PROTECTED_BIT)) != 0 &&
        refusal_.empty())
      refusal_ = "it reaches a sparse or protected buffer";
    if (b->address == 0) continue;
    const std::uint64_t address = b->address - (b->offset - r.offset);
    if (r.address != 0 && r.address != address && refusal_.empty())
      refusal_ = "it reaches buffers that share memory at addresses that do not agree";
    r.address = address;
  }
  r.size = end - r.offset;
  r.id = static_cast<std::uint32_t>(regions_.size());
  r.reached = how;
  total_ += r.size;
  c.region = r.id;
  regions_.push_back(std::move(r));
  return c.region;
}

std::string Snapshot::collect_bindings() {
  const Kernel& k = *piece_.mark->kernel;
  const DispatchState& s = *piece_.mark->state;
  std::lock_guard hold(d_.lock);
  for (const SlotName& at : k.declared) {
    const SetLayout* layout = at.set < k.layout->sets.size() ? k.layout->sets[at.set].get() : nullptr;
    const SetLayout::Slot* slot = layout != nullptr ? layout->find(at.binding) : nullptr;
    if (slot == nullptr || slot->count == 0) continue;
    const auto bound = s.sets.find(at.set);
    if (bound == s.sets.end() || !bound->second.contents)
      return "nothing that is known here is bound to set " + std::to_string(at.set);
    const DispatchState::Set& set = bound->second;
    std::uint32_t first_dynamic = 0;
    for (const auto& other : layout->slots)
      if (other.binding < at.binding && is_dynamic(other.type)) first_dynamic += other.count;
    for (std::uint32_t e = 0; e < slot->count; ++e) {
      const auto it = set.contents->elements.find(std::uint64_t(at.binding) << 32 | e);
      const std::string where = place(at, e, slot->count);
      if (it == set.contents->elements.end() || !it->second.buffer || !it->second.buffer->alive) {
        // Never written is allowed where the layout says so; the kernel then does not look at it.
        if ((slot->flags & VK_DESCRIPTOR_BINDING_PARTIALLY_BOUND_BIT) != 0) continue;
        if (it != set.contents->elements.end() && !is_buffer_type(it->second.type))
          return where + " is " + describe(it->second.type);
        return where + " holds no buffer (never written, a null descriptor, or destroyed)";
      }
      const Element& element = it->second;
      if (!readable(*element.buffer)) return where + " is a buffer without memory";
      klab_binding b{};
      b.set = at.set, b.binding = at.binding, b.element = e;
      b.vulkan_type = slot->type;
      std::uint64_t offset = element.offset;
      if (is_dynamic(slot->type) && first_dynamic + e < set.dynamic_offsets.size())
        offset += set.dynamic_offsets[first_dynamic + e];
      const Buffer& buffer = *element.buffer;
      if (offset > buffer.size) return where + " starts past the end of its buffer";
      b.range = element.range == VK_WHOLE_SIZE ? buffer.size - offset : element.range;
      if (b.range > buffer.size - offset) return where + " ends past the end of its buffer";
      b.region = reach(element.buffer, KLAB_REACHED_BINDING);
      if (b.region == kNoRegion) return where + " is a buffer that is not known here";
      b.offset = buffer.offset - regions_[b.region].offset + offset;
      bindings_.push_back(b);
    }
  }
  return refusal_;
}

void Snapshot::send_head() {
  const Kernel& k = *piece_.mark->kernel;
  const DispatchState& s = *piece_.mark->state;
  klab_capture_begin begin{};
  begin.device = d_.id;
  begin.kernel = k.id;
  begin.call = s.call;
  begin.queue = queue_.index;
  begin.nth = piece_.nth;
  begin.sequence = piece_.sequence;
  std::copy(grid_, grid_ + 3, begin.grid);
  std::copy(s.base, s.base + 3, begin.base);
  begin.push_bytes = static_cast<std::uint32_t>(s.push_constants.size());
  link().send(
      &begin, sizeof begin, KLAB_CAPTURE_BEGIN,
      {std::string_view(reinterpret_cast<const char*>(s.push_constants.data()), s.push_constants.size())});
  std::vector<klab_layout_slot> slots;
  for (std::uint32_t set = 0; set < k.layout->sets.size(); ++set)
    if (const auto& layout = k.layout->sets[set])
      for (const auto& slot : layout->slots)
        slots.push_back(
            {set, slot.binding, static_cast<std::uint32_t>(slot.type), slot.count,
             (layout->flags & VK_DESCRIPTOR_SET_LAYOUT_CREATE_PUSH_DESCRIPTOR_BIT_KHR) != 0 ? 1u : 0u, 0});
  link().send_list(KLAB_LAYOUT, d_.id, slots.data(), sizeof slots[0], slots.size());
  link().send_list(KLAB_SPEC, d_.id, k.spec.data(), sizeof(klab_spec), k.spec.size());
  std::vector<klab_push_range> ranges;
  for (const auto& r : k.layout->push_ranges)
    if ((r.stageFlags & VK_SHADER_STAGE_COMPUTE_BIT) != 0) ranges.push_back({r.offset, r.size});
  link().send_list(KLAB_PUSH_RANGES, d_.id, ranges.data(), sizeof(klab_push_range), ranges.size());
  link().send_list(KLAB_BINDINGS, d_.id, bindings_.data(), sizeof(klab_binding), bindings_.size());
}

bool Snapshot::ask_size(bool final) {
  klab_size size{};
  size.bytes = total_;
  size.final = final ? 1 : 0;
  const std::uint32_t answer = link().ask(&size, sizeof size, KLAB_SIZE);
  if (answer == KLAB_COUNT_ONLY) count_only_ = true;
  return answer == KLAB_GO || answer == KLAB_COUNT_ONLY;
}

bool Snapshot::announce(Region& r) {
  if (count_only_) return true;
  klab_region record{};
  record.region = r.id;
  record.reached_by = r.reached;
  record.address = r.address;
  record.bytes = r.size;
  record.allocation = r.memory->id;
  record.allocation_offset = r.offset;
  record.memory_flags = r.memory->flags;
  std::string name;
  for (const auto& b : r.buffers) {
    record.usage |= b->usage;
    if (name.empty()) name = b->name;
  }
  if (d_.address_capture && r.address != 0) {
    const VkBufferDeviceAddressInfo which{VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO, nullptr,
                                          r.buffers[0]->handle};
    const auto of_buffer = d_.next.GetBufferOpaqueCaptureAddress != nullptr
                               ? d_.next.GetBufferOpaqueCaptureAddress
                               : d_.next.GetBufferOpaqueCaptureAddressKHR;
    if (of_buffer != nullptr && r.buffers[0]->address != 0)
      record.opaque_address = of_buffer(d_.handle, &which);
    const VkDeviceMemoryOpaqueCaptureAddressInfo memory{
        VK_STRUCTURE_TYPE_DEVICE_MEMORY_OPAQUE_CAPTURE_ADDRESS_INFO, nullptr, r.memory->handle};
    const auto of_memory = d_.next.GetDeviceMemoryOpaqueCaptureAddress != nullptr
                               ? d_.next.GetDeviceMemoryOpaqueCaptureAddress
                               : d_.next.GetDeviceMemoryOpaqueCaptureAddressKHR;
    if (of_memory != nullptr && r.memory->address_capture)
      record.opaque_memory = of_memory(d_.handle, &memory);
  }
  record.name_length = static_cast<std::uint32_t>(name.size());
  return link().send(&record, sizeof record, KLAB_REGION, {name});
}

bool Snapshot::send(std::size_t index, std::uint32_t kind, bool scanned) {
  // Copies: reaching more regions moves the vector.
  const std::uint64_t offset = regions_[index].offset, size = regions_[index].size;
  if (count_only_ && !scanned) return true;
  Reader reader(d_, queue_);
  if (!reader.open(regions_[index].memory, regions_[index].buffers)) {
    refusal_ = "a buffer that it reaches could not be read";
    return false;
  }
  for (std::uint64_t at = 0; at < size; at += KLAB_SLOT_BYTES) {
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(KLAB_SLOT_BYTES, size - at));
    const std::byte* p = reader.at(offset + at, n);
    if (p == nullptr) {
      refusal_ = "a buffer that it reaches could not be read";
      return false;
    }
    if (!count_only_ && !link().send_data(kind, static_cast<std::uint32_t>(index), at, p, n, &p))
      return false;
    if (scanned) scan(p, n);
    if (!refusal_.empty()) return false;
  }
  return true;
}

void Snapshot::scan(const std::byte* bytes, std::size_t size) {
  scan_words(bytes, size, low_, high_ - low_, [&](std::uint64_t word) { scan_word(word); });
}

void Snapshot::scan_word(std::uint64_t word) {
  auto it = std::upper_bound(ranges_.begin(), ranges_.end(), word,
                             [](std::uint64_t w, const Range& r) { return w < r.begin; });
  if (it == ranges_.begin()) return;
  --it;
  if (word < it->end) reach(live_[it->buffer], KLAB_REACHED_POINTER);
}

}  // namespace klab::shim
