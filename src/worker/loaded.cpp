// SPDX-License-Identifier: Apache-2.0
#include "worker/loaded.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <random>

#include <fmt/format.h>

namespace klab::worker {

namespace {

using bundle::kChunkSize;
using bundle::kNoList;
constexpr std::uint64_t kWindow = 128ull << 20;  // the smallest storage-buffer range that Vulkan promises
constexpr double kHashTimeout = 60;

std::byte pattern_byte(std::uint32_t pattern, std::uint64_t offset) {
  return static_cast<std::byte>(pattern >> (offset % 4 * 8) & 0xffu);
}

}  // namespace

ChunkList merge(const ChunkList& a, const ChunkList& b) {
  ChunkList out;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(out));
  return out;
}

bool contains(const ChunkList& list, ChunkId chunk) {
  return std::binary_search(list.begin(), list.end(), chunk);
}

void HashSet::append(std::vector<gpu::Step>& steps) const {
  for (const Launch& l : launches_) steps.push_back(gpu::Step::launch_of(l.id(), false));
}

Loaded::Loaded(bundle::Reader reader, std::uint32_t dispatch, Gpu& gpu, PlaceOptions options)
    : reader_(std::move(reader)), dispatch_(dispatch), gpu_(gpu), options_(std::move(options)) {}
Loaded::~Loaded() = default;

Result<std::unique_ptr<Loaded>> Loaded::create(bundle::Reader reader, std::uint32_t dispatch, Gpu& gpu,
                                               const PlaceOptions& options, const Deadline& deadline) {
  if (dispatch >= reader.manifest().dispatches.size())
    return fail(ErrorCode::usage, fmt::format("the bundle holds {} dispatch(es), there is no number {}",
                                              reader.manifest().dispatches.size(), dispatch));
  std::unique_ptr<Loaded> loaded(new Loaded(std::move(reader), dispatch, gpu, options));
  const auto& regions = loaded->dispatch().regions;
  const auto& book = loaded->reader_;
  std::uint64_t chunks = 0;
  for (const auto& r : regions) chunks += (r.size + kChunkSize - 1) / kChunkSize;
  if (chunks > 1u << 30)
    return fail(ErrorCode::cap_reached, fmt::format("{} chunks of 1 MiB are too many", chunks));
  for (const auto& r : regions) {
    loaded->first_chunk_.push_back(loaded->chunk_count());
    loaded->captured_bytes_ += r.size;
    for (std::uint64_t at = 0; at < r.size; at += kChunkSize) {
      const ChunkId id = loaded->chunk_count();
      loaded->chunks_.push_back({r.id, at, static_cast<std::uint32_t>(std::min(kChunkSize, r.size - at))});
      if (r.post != kNoList && r.pre != kNoList &&
          book.chunk_hash(r.pre, at / kChunkSize) != book.chunk_hash(r.post, at / kChunkSize))
        loaded->captured_changes_.push_back(id);
    }
  }
  loaded->first_guard_ = loaded->chunk_count();
  KLAB_TRY_VOID(loaded->place_and_upload(deadline));
  return loaded;
}

Status Loaded::place() {
  const auto& regions = dispatch().regions;
  std::vector<gpu::MemoryRequest> requests;
  bool any_address = false;
  for (const auto& r : regions) {
    const bool symbol = is_symbol(r);
    any_address = any_address || (r.address != 0 && !symbol);
    requests.push_back({.address = symbol ? 0 : r.address,
                        .opaque_address = r.opaque_address,
                        .opaque_memory = r.opaque_memory,
                        .size = r.size,
                        .kind = r.kind,
                        .needs_address = r.address != 0 && gpu_.abilities().device_addresses,
                        .pool = options_.pool,
                        .memory_flags = r.memory_flags,
                        .usage = r.usage});
  }
  const bool exact = any_address && !options_.relocate && gpu_.abilities().fixed_addresses;
  if (requests.empty()) return {};
  if (!exact)
    for (auto& r : requests) r.address = r.opaque_address = r.opaque_memory = 0;
  if (exact || order_ == 0) {
    KLAB_TRY(placed_, gpu_->place(requests, exact));
  } else {
    std::vector<std::size_t> order(requests.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(order_));
    std::vector<gpu::MemoryRequest> shuffled;
    for (const std::size_t i : order) shuffled.push_back(requests[i]);
    KLAB_TRY(const auto placed, gpu_->place(shuffled, false));
    placed_.resize(placed.size());
    for (std::size_t i = 0; i < order.size(); ++i) placed_[order[i]] = placed[i];
  }
  for (const auto& p : placed_) memories_.emplace_back(&gpu_, p.id);
  note_memory_kinds();
  std::vector<Relocator::Moved> moved;
  for (std::size_t i = 0; i < regions.size(); ++i)
    if (regions[i].address != 0)
      moved.push_back({regions[i].address, regions[i].size,
                       is_symbol(regions[i]) ? regions[i].address : placed_[i].address});
  if (!any_address) {
    mode_ = replay::AddressMode::none;
    relocator_ = Relocator(std::move(moved));
    return {};
  }
  if (!exact && !gpu_.abilities().device_addresses) {
    mode_ = replay::AddressMode::none;
    notes_.push_back(
        "the capture has device addresses and this device has none: pointers in the data lead nowhere");
    return {};
  }
  mode_ = exact ? replay::AddressMode::exact : replay::AddressMode::relocated;
  relocator_ = Relocator(std::move(moved));
  return {};
}

void Loaded::note_memory_kinds() {
  using bundle::MemoryKind;
  std::uint64_t changed[2] = {0, 0};
  for (std::size_t i = 0; i < placed_.size(); ++i) {
    const MemoryKind kind = dispatch().regions[i].kind;
    if (placed_[i].pool != "device") continue;
    if (kind == MemoryKind::managed) ++changed[0];
    if (kind == MemoryKind::pinned_host) ++changed[1];
  }
  for (int i = 0; i < 2; ++i)
    if (changed[i] != 0)
      notes_.push_back(
          fmt::format("memory_kind_changed: {} region(s) of {} memory lie in device memory here: times may "
                      "differ from the program's",
                      changed[i], i == 0 ? "managed" : "page-locked host"));
}

void Loaded::find_symbol_words(ChunkId id, std::span<const std::byte> raw) {
  const Chunk& c = chunk(id);
  const auto& regions = dispatch().regions;
  std::uint64_t lowest = ~0ull, highest = 0;
  for (const auto& r : regions)
    if (is_symbol(r) && r.address != 0) {
      lowest = std::min(lowest, r.address);
      highest = std::max(highest, r.address + r.size);
    }
  for (std::size_t at = 0; at + 8 <= raw.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, raw.data() + at, 8);
    if (word < lowest || word >= highest) continue;  // nearly every word of data
    if (std::any_of(regions.begin(), regions.end(), [&](const auto& r) {
          return is_symbol(r) && r.address != 0 && word >= r.address && word - r.address < r.size;
        }))
      symbol_words_.push_back({c.region, c.offset + at, word});
  }
}

Status Loaded::place_and_upload(const Deadline& deadline) {
  notes_.clear();
  symbol_words_.clear();
  // Guards lie elsewhere in each placement.
  chunks_.resize(first_guard_);
  first_chunk_.resize(dispatch().regions.size());
  guards_.clear();
  guarded_bytes_ = 0;
  const bool symbols = std::any_of(dispatch().regions.begin(), dispatch().regions.end(),
                                   [](const auto& r) { return is_symbol(r) && r.address != 0; });
  KLAB_TRY_VOID(place());
  rewritten_words_ = 0;
  for (ChunkId id = 0; id < chunk_count(); ++id) {
    if (id % 64 == 0) KLAB_TRY_VOID(deadline.check("loading the capture"));
    KLAB_TRY(auto bytes, pre(id));
    const std::uint32_t list = dispatch().regions[chunk(id).region].pre;
    if (symbols && list != kNoList) {
      KLAB_TRY(const auto raw, reader_.chunk(list, chunk(id).offset / kChunkSize));
      find_symbol_words(id, raw.subspan(0, chunk(id).size));
    }
    if (relocator_.moves() && list != kNoList) {
      // pre() has rewritten them already; what is counted is words of the capture.
      const Chunk& c = chunk(id);
      KLAB_TRY(const auto raw, reader_.chunk(dispatch().regions[c.region].pre, c.offset / kChunkSize));
      validate::ByteBuffer copy(raw.begin(), raw.end());
      rewritten_words_ += relocator_.rewrite(copy);
    }
    KLAB_TRY_VOID(upload(id, bytes));
  }
  if (relocator_.moves()) {
    validate::ByteBuffer push(dispatch().push_constants.begin(), dispatch().push_constants.end());
    rewritten_words_ += relocator_.rewrite(push);
    validate::ByteBuffer arguments(dispatch().arguments.begin(), dispatch().arguments.end());
    rewritten_words_ += relocator_.rewrite(arguments);
  }
  KLAB_TRY_VOID(place_guards(deadline));
  ChunkList all(chunk_count());
  for (ChunkId i = 0; i < chunk_count(); ++i) all[i] = i;
  KLAB_TRY(all_, prepare_hashes(all));
  KLAB_TRY(pre_hashes_, hash_all(deadline));
  return {};
}

Status Loaded::place_guards(const Deadline& deadline) {
  std::vector<gpu::MemoryId> ids;
  for (const gpu::Placed& p : placed_) ids.push_back(p.id);
  KLAB_TRY(const auto guards, gpu_->guards(ids));
  for (const gpu::Guard& g : guards) {
    memories_.emplace_back(&gpu_, g.memory);
    const auto neighbour = std::find(ids.begin(), ids.end(), g.neighbour);
    guards_.push_back({static_cast<std::uint32_t>(neighbour - ids.begin()), g.before, g.size});
    const auto region = static_cast<std::uint32_t>(placed_.size());
    placed_.push_back({.id = g.memory, .address = g.address});
    first_chunk_.push_back(chunk_count());
    for (std::uint64_t at = 0; at < g.size; at += kChunkSize)
      chunks_.push_back({region, at, static_cast<std::uint32_t>(std::min(kChunkSize, g.size - at))});
    guarded_bytes_ += g.size;
  }
  return fill_guards(kCanary, deadline);
}

Status Loaded::fill_guards(std::uint32_t pattern, const Deadline& deadline) {
  std::vector<gpu::Step> fills;
  for (std::size_t i = 0; i < guards_.size(); ++i) {
    const gpu::MemoryId memory = placed_[dispatch().regions.size() + i].id;
    const std::uint64_t whole = guards_[i].size / 4 * 4;
    if (whole != 0) fills.push_back(gpu::Step::fill_of(memory, 0, whole, pattern));
    validate::ByteBuffer tail;
    for (std::uint64_t at = whole; at < guards_[i].size; ++at) tail.push_back(pattern_byte(pattern, at));
    if (!tail.empty()) KLAB_TRY_VOID(gpu_->upload(memory, whole, tail));
  }
  if (!fills.empty()) KLAB_TRY_VOID(gpu_.run(fills, deadline.timeout_ns(kHashTimeout)));
  return {};
}

void Loaded::give_back() {
  all_.reset();
  while (!memories_.empty()) memories_.pop_back();  // guards before what they guard
  placed_.clear();
  padding_ = Memory();
}

Status Loaded::place_again(std::uint64_t padding, const Deadline& deadline, std::uint32_t order) {
  give_back();
  order_ = order;
  if (padding != 0) {
    KLAB_TRY(padding_, gpu_.allocate(padding));
  }
  return place_and_upload(deadline);
}

std::string Loaded::place_name(std::uint32_t region, std::uint64_t offset) const {
  std::string text = fmt::format("{} at offset {}", region_name(region), offset);
  const std::uint64_t address = region < dispatch().regions.size() ? dispatch().regions[region].address
                                                                   : placed_[region].address;
  if (address != 0) text += fmt::format(", address {:#x}", address + offset);
  return text;
}

std::uint64_t Loaded::region_size(std::uint32_t region) const {
  return region < dispatch().regions.size() ? dispatch().regions[region].size
                                            : guards_[region - dispatch().regions.size()].size;
}

std::string Loaded::region_label(std::uint32_t region) const {
  return region < dispatch().regions.size() ? dispatch().regions[region].name : std::string();
}

std::string Loaded::region_name(std::uint32_t region) const {
  if (region >= dispatch().regions.size()) {
    const Redzone& g = guards_[region - dispatch().regions.size()];
    return fmt::format("the redzone {} {}", g.before ? "before" : "after", region_name(g.region));
  }
  const auto& r = dispatch().regions[region];
  return r.name.empty() ? fmt::format("region {}", region) : fmt::format("region {} ({})", region, r.name);
}

ChunkList Loaded::chunks_of(std::uint32_t region) const {
  ChunkList list;
  const ChunkId end = region + 1 < first_chunk_.size() ? first_chunk_[region + 1] : chunk_count();
  for (ChunkId id = first_chunk_[region]; id < end; ++id) list.push_back(id);
  return list;
}

std::uint64_t Loaded::bytes_of(const ChunkList& list) const {
  std::uint64_t sum = 0;
  for (const ChunkId id : list) sum += chunks_[id].size;
  return sum;
}

Result<validate::ByteBuffer> Loaded::pre(ChunkId id) const {
  const Chunk& c = chunk(id);
  if (is_guard(id)) {
    validate::ByteBuffer bytes(c.size);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = pattern_byte(kCanary, c.offset + i);
    return bytes;
  }
  const std::uint32_t list = dispatch().regions[c.region].pre;
  if (list == kNoList) return validate::ByteBuffer(c.size);
  KLAB_TRY(const auto raw, reader_.chunk(list, c.offset / kChunkSize));
  validate::ByteBuffer bytes(raw.begin(), raw.begin() + c.size);
  (void)relocator_.rewrite(bytes);
  return bytes;
}

Result<validate::ByteBuffer> Loaded::post(ChunkId id) const {
  const Chunk& c = chunk(id);
  if (is_guard(id)) return validate::ByteBuffer();
  const std::uint32_t list = dispatch().regions[c.region].post;
  if (list == kNoList) return validate::ByteBuffer();
  KLAB_TRY(const auto raw, reader_.chunk(list, c.offset / kChunkSize));
  validate::ByteBuffer bytes(raw.begin(), raw.begin() + c.size);
  (void)relocator_.rewrite(bytes);
  return bytes;
}

Result<validate::ByteBuffer> Loaded::download(ChunkId id) {
  const Chunk& c = chunk(id);
  validate::ByteBuffer bytes(c.size);
  if (const std::byte* view = gpu_->host_view(placed_[c.region].id); view != nullptr)
    std::memcpy(bytes.data(), view + c.offset, c.size);
  else
    KLAB_TRY_VOID(gpu_->download(placed_[c.region].id, c.offset, bytes));
  return bytes;
}

Status Loaded::upload(ChunkId id, std::span<const std::byte> bytes) {
  const Chunk& c = chunk(id);
  KLAB_CHECK(bytes.size() == c.size);
  return gpu_->upload(placed_[c.region].id, c.offset, bytes);
}

Status Loaded::reload(const ChunkList& list) {
  for (const ChunkId id : list) {
    KLAB_TRY(const auto bytes, pre(id));
    KLAB_TRY_VOID(upload(id, bytes));
  }
  return {};
}

Result<HashSet> Loaded::prepare_hashes(const ChunkList& list) {
  HashSet set;
  set.chunks_ = list;
  if (list.empty()) return set;
  // One launch for all of them where chunks have addresses; else one for each window of a region.
  const bool by_address = gpu_.abilities().device_addresses &&
                          !gpu_->builtin_kernel("hash_address").empty() &&
                          std::all_of(list.begin(), list.end(), [&](ChunkId id) {
                            const std::uint64_t address = placed_[chunk(id).region].address;
                            return address != 0 && (address % 4 == 0 || gpu_.abilities().unaligned_hashes);
                          });
  KLAB_TRY(set.results_, gpu_.allocate(set.result_bytes()));
  if (by_address) {
    std::vector<kernels::HashAddressChunk> entries;
    for (const ChunkId id : list)
      entries.push_back({placed_[chunk(id).region].address + chunk(id).offset, chunk(id).size, 0});
    const std::uint64_t bytes = entries.size() * sizeof entries[0];
    KLAB_TRY(set.list_, gpu_.allocate(bytes));
    KLAB_TRY_VOID(gpu_->upload(set.list_.id(), 0, std::as_bytes(std::span(entries))));
    const kernels::HashPush push{static_cast<std::uint32_t>(entries.size()), 0};
    const BuiltinBinding bindings[] = {{set.list_.id(), 0, bytes},
                                       {set.results_.id(), 0, set.result_bytes()}};
    const std::uint32_t across = std::min(push.count, 32768u);
    KLAB_TRY(auto launch, gpu_.builtin("hash_address", bindings, std::as_bytes(std::span(&push, 1)),
                                       {across, (push.count + across - 1) / across, 1}));
    set.launches_.push_back(std::move(launch));
    return set;
  }
  std::vector<kernels::HashChunk> entries;
  struct Window {
    std::uint32_t region = 0, first = 0, count = 0;
    std::uint64_t offset = 0;
  };
  std::vector<Window> windows;
  for (const ChunkId id : list) {
    const Chunk& c = chunk(id);
    const std::uint64_t start = c.offset / kWindow * kWindow;
    if (windows.empty() || windows.back().region != c.region || windows.back().offset != start)
      windows.push_back({c.region, static_cast<std::uint32_t>(entries.size()), 0, start});
    ++windows.back().count;
    entries.push_back({static_cast<std::uint32_t>(c.offset - start), c.size});
  }
  KLAB_TRY(set.list_, gpu_.allocate(entries.size() * sizeof(kernels::HashChunk)));
  KLAB_TRY_VOID(gpu_->upload(set.list_.id(), 0, std::as_bytes(std::span(entries))));
  for (const Window& w : windows) {
    const std::uint64_t size = std::min(kWindow, region_size(w.region) - w.offset);
    const kernels::HashPush push{w.count, w.first};
    const BuiltinBinding bindings[] = {
        {placed_[w.region].id, w.offset, (size + 3) / 4 * 4},
        {set.list_.id(), 0, entries.size() * sizeof(kernels::HashChunk)},
        {set.results_.id(), 0, set.result_bytes()},
    };
    KLAB_TRY(auto launch,
             gpu_.builtin("hash", bindings, std::as_bytes(std::span(&push, 1)), {w.count, 1, 1}));
    set.launches_.push_back(std::move(launch));
  }
  return set;
}

Result<std::vector<kernels::Hash>> Loaded::read_hashes(const HashSet& set) {
  std::vector<kernels::Hash> hashes(set.chunks_.size());
  if (!hashes.empty())
    KLAB_TRY_VOID(gpu_->download(set.results_.id(), 0, std::as_writable_bytes(std::span(hashes))));
  return hashes;
}

Result<std::vector<kernels::Hash>> Loaded::hash_all(const Deadline& deadline) {
  std::vector<gpu::Step> steps;
  all_->append(steps);
  if (!steps.empty()) KLAB_TRY_VOID(gpu_.run(steps, deadline.timeout_ns(kHashTimeout)));
  return read_hashes(*all_);
}

Result<ChunkList> Loaded::changed(const Deadline& deadline) {
  KLAB_TRY(const auto now, hash_all(deadline));
  ChunkList list;
  for (ChunkId i = 0; i < chunk_count(); ++i)
    if (now[i] != pre_hashes_[i]) list.push_back(i);
  return list;
}

Result<ChunkList> Loaded::make_pristine(const Deadline& deadline) {
  KLAB_TRY(auto list, changed(deadline));
  KLAB_TRY_VOID(reload(list));
  return list;
}

}  // namespace klab::worker
