// SPDX-License-Identifier: Apache-2.0
#include "shim/vulkan/trace.h"

#include <algorithm>
#include <cstring>

namespace klab::shim {
namespace {

// Where a timestamp is taken: when all that came before is done. A driver on the CPU runs compute commands
// one after the other, so there the top of the pipe means the same, and does not flush (which costs it more
// than a small dispatch); what it draws is deferred, so not after graphics.
VkPipelineStageFlagBits stage_of(const CommandBuffer& c) {
  return c.device->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU && !c.live_state
             ? VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT
             : VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT;
}
Chunk* take_chunk(Device& d) {
  {
    std::lock_guard hold(d.tracer->lock);
    if (!d.tracer->free_chunks.empty()) {
      Chunk* c = d.tracer->free_chunks.back();
      d.tracer->free_chunks.pop_back();
      if (d.host_query_reset) d.next.ResetQueryPool(d.handle, c->pool, 0, 2 * kChunkDispatches);
      return c;
    }
  }
  VkQueryPoolCreateInfo info{VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO};
  info.queryType = VK_QUERY_TYPE_TIMESTAMP;
  info.queryCount = 2 * kChunkDispatches;
  VkQueryPool pool;
  if (d.next.CreateQueryPool(d.handle, &info, nullptr, &pool) < 0) return nullptr;
  if (d.host_query_reset) d.next.ResetQueryPool(d.handle, pool, 0, info.queryCount);
  auto* c = new Chunk;
  c->pool = pool;
  return c;
}

// A small buffer into which the GPU copies the grids of indirect dispatches.
bool give_grids(Device& d, Chunk& c) {
  if (c.mapped != nullptr) return true;
  VkBufferCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
  info.size = kChunkDispatches * 16;
  info.usage = VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  if (d.next.CreateBuffer(d.handle, &info, nullptr, &c.grids) < 0) return false;
  VkMemoryRequirements needs;
  d.next.GetBufferMemoryRequirements(d.handle, c.grids, &needs);
  constexpr VkMemoryPropertyFlags kWant =
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  for (std::uint32_t i = 0; i < d.memory_properties.memoryTypeCount; ++i) {
    if ((needs.memoryTypeBits >> i & 1) == 0 ||
        (d.memory_properties.memoryTypes[i].propertyFlags & kWant) != kWant)
      continue;
    VkMemoryAllocateInfo allocate{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, nullptr, needs.size, i};
    void* mapped = nullptr;
    if (d.next.AllocateMemory(d.handle, &allocate, nullptr, &c.memory) >= 0 &&
        d.next.BindBufferMemory(d.handle, c.grids, c.memory, 0) >= 0 &&
        d.next.MapMemory(d.handle, c.memory, 0, VK_WHOLE_SIZE, 0, &mapped) >= 0) {
      c.mapped = static_cast<const std::uint32_t*>(mapped);
      return true;
    }
    break;
  }
  return false;
}

void free_chunk(Device& d, Chunk* c) {
  d.next.DestroyQueryPool(d.handle, c->pool, nullptr);
  if (c->grids != VK_NULL_HANDLE) d.next.DestroyBuffer(d.handle, c->grids, nullptr);
  if (c->memory != VK_NULL_HANDLE) d.next.FreeMemory(d.handle, c->memory, nullptr);
  delete c;
}

// Gives each line its times when all of them are there. False: not yet.
bool read_times(Device& d, Flight& f, std::uint32_t valid_bits) {
  Recording& r = *f.recording;
  struct Result {
    std::uint64_t ticks, available;
  };
  static thread_local std::vector<Result> results;
  std::vector<std::uint64_t> ticks(2 * r.places);
  std::vector<std::uint64_t> begins(r.chunks.size());
  const bool any_timed = std::any_of(f.lines.begin(), f.lines.end(), [](const auto& l) { return l.timed; });
  for (std::size_t k = 0; any_timed && k < r.chunks.size(); ++k) {
    const std::uint32_t first = static_cast<std::uint32_t>(k) * kChunkDispatches;
    const std::uint32_t n = 2 * std::min(kChunkDispatches, r.places - first);
    results.assign(n, {0, 0});
    const VkResult result = d.next.GetQueryPoolResults(
        d.handle, r.chunks[k]->pool, 0, n, n * sizeof(Result), results.data(), sizeof(Result),
        VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WITH_AVAILABILITY_BIT);
    if (result != VK_SUCCESS) return false;
    for (std::uint32_t i = 0; i < n; ++i) {
      if (results[i].available == 0) return false;
      ticks[2 * first + i] = results[i].ticks;
    }
    begins[k] = results[0].ticks;
    if (begins[k] == r.chunks[k]->last_begin)
      return false;  // of the execution before: not reset on the GPU yet
  }
  const double period = d.properties.limits.timestampPeriod;
  const std::uint64_t mask = valid_bits >= 64 ? ~0ull : (1ull << valid_bits) - 1;
  for (Flight::Line& line : f.lines) {
    if (!line.timed) continue;
    const std::uint64_t begin = ticks[2 * line.place] & mask, end = ticks[2 * line.place + 1] & mask;
    line.row.begin_ns = static_cast<double>(begin) * period;
    line.row.gpu_ns = static_cast<double>((end - begin) & mask) * period;
    if (line.indirect)
      std::memcpy(line.row.grid,
                  r.chunks[line.place / kChunkDispatches]->mapped + 4 * (line.place % kChunkDispatches),
                  sizeof line.row.grid);
  }
  for (std::size_t k = 0; k < r.chunks.size(); ++k) r.chunks[k]->last_begin = begins[k];
  return true;
}

// The tracer's lock is held.
void land(Flight& f) {
  std::vector<klab_row> rows;
  rows.reserve(f.lines.size());
  for (const Flight::Line& line : f.lines) rows.push_back(line.row);
  link().add_rows(rows.data(), rows.size());
  f.recording->in_flight = false;
}

std::uint32_t valid_bits(const Device& d, std::uint32_t) {
  // A device's families that have timestamps agree on their width everywhere so far; the narrowest is safe.
  std::uint32_t bits = 64;
  for (const QueueFamily& f : d.families)
    if (f.timestamp_bits != 0) bits = std::min(bits, f.timestamp_bits);
  return bits;
}

void harvest_locked(Device& d, std::vector<Ref<Recording>>& done) {
  Tracer& t = *d.tracer;
  const std::uint32_t bits = valid_bits(d, 0);
  std::size_t kept = 0, tried = 0;
  for (std::size_t i = 0; i < t.flights.size(); ++i) {
    Flight& f = t.flights[i];
    if (tried < 4 && read_times(d, f, bits)) {
      land(f);
      done.push_back(std::move(f.recording));
      continue;
    }
    ++tried;  // the oldest that are not done: later ones of the same queue are not either
    if (kept != i) t.flights[kept] = std::move(f);
    ++kept;
  }
  t.flights.resize(kept);
}

}  // namespace

Recording::~Recording() {
  if (chunks.empty()) return;
  std::lock_guard hold(device->tracer->lock);
  auto& free_chunks = device->tracer->free_chunks;
  free_chunks.insert(free_chunks.end(), chunks.begin(), chunks.end());
}

void trace_dispatch(CommandBuffer& c, const DispatchState& s, const std::function<void()>& emit) {
  Device& d = *c.device;
  Chunk* chunk = nullptr;
  std::uint32_t slot = 0;
  quietly([&] {
    Kernel& k = announce(d, *c.pipeline);
    if (!c.recording) {
      c.recording = std::make_shared<Recording>();
      c.recording->device = &d;
    }
    Recording& r = *c.recording;
    Recording::Entry e{&k, nullptr, s.call, {s.grid[0], s.grid[1], s.grid[2]}};
    if (c.family < d.families.size() && d.families[c.family].timestamp_bits != 0) {
      slot = r.places % kChunkDispatches;
      if (slot == 0) {
        if (Chunk* fresh = take_chunk(d); fresh != nullptr) {
          r.chunks.push_back(fresh);
          d.next.CmdResetQueryPool(c.handle, fresh->pool, 0, 2 * kChunkDispatches);
        }
      }
      if (r.places / kChunkDispatches < r.chunks.size()) {
        chunk = r.chunks.back();
        e.place = r.places++;
        e.timed = true;
        if (s.indirect && give_grids(d, *chunk)) {
          e.indirect = true;
          VkMemoryBarrier before{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, VK_ACCESS_MEMORY_WRITE_BIT,
                                 VK_ACCESS_TRANSFER_READ_BIT};
          d.next.CmdPipelineBarrier(c.handle, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
                                    VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 1, &before, 0, nullptr, 0, nullptr);
          VkBufferCopy copy{s.indirect_offset, slot * 16ull, 12};
          d.next.CmdCopyBuffer(c.handle, s.indirect->handle, chunk->grids, 1, &copy);
          VkMemoryBarrier after{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, VK_ACCESS_TRANSFER_WRITE_BIT,
                                VK_ACCESS_HOST_READ_BIT};
          d.next.CmdPipelineBarrier(c.handle, VK_PIPELINE_STAGE_TRANSFER_BIT,
                                    VK_PIPELINE_STAGE_HOST_BIT | VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0, 1,
                                    &after, 0, nullptr, 0, nullptr);
        }
      }
    }
    r.entries.push_back(e);
  });
  const VkPipelineStageFlagBits stage = stage_of(c);
  if (chunk != nullptr) d.next.CmdWriteTimestamp(c.handle, stage, chunk->pool, 2 * slot);
  emit();
  if (chunk != nullptr) d.next.CmdWriteTimestamp(c.handle, stage, chunk->pool, 2 * slot + 1);
}

void trace_secondary(CommandBuffer& c, CommandBuffer& secondary) {
  if (!secondary.recording) return;
  if (!c.recording) {
    c.recording = std::make_shared<Recording>();
    c.recording->device = c.device;
  }
  c.recording->secondaries.push_back(secondary.recording);
  c.recording->entries.push_back({nullptr, secondary.recording.get()});
}

std::vector<Flight> trace_submission(Device& d, Queue& queue, const VkCommandBuffer* const* lists,
                                     const std::uint32_t* sizes, std::size_t count) {
  std::vector<Flight> flights;
  std::vector<Ref<Recording>> done;
  if (!link().live()) return flights;
  std::lock_guard hold(d.tracer->lock);
  // Executions of one recording that are still in flight would be overwritten by this one.
  auto flight_of = [&](const Ref<Recording>& r) -> std::size_t {
    if (r->in_flight) {
      if (d.host_query_reset) harvest_locked(d, done);
      if (r->in_flight) {  // not finished, or earlier in this very submission: its times cannot be known
        auto& waiting = d.tracer->flights;
        for (std::size_t i = 0; i < waiting.size(); ++i)
          if (waiting[i].recording == r) {
            land(waiting[i]);
            done.push_back(std::move(waiting[i].recording));
            waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(i));
            break;
          }
        for (Flight& f : flights)
          if (f.recording == r) {
            land(f);
            f.lines.clear();
            done.push_back(std::move(f.recording));
          }
      }
    }
    r->in_flight = true;
    flights.push_back({r, {}});
    return flights.size() - 1;
  };
  Counts& all = counts();
  std::lock_guard counting(all.lock);
  auto add = [&](auto&& self, const Ref<Recording>& r) -> void {
    std::size_t mine = ~std::size_t{0};
    std::size_t next_secondary = 0;
    for (const Recording::Entry& e : r->entries) {
      if (e.kernel == nullptr) {
        self(self, r->secondaries[next_secondary++]);
        continue;
      }
      if (mine == ~std::size_t{0}) mine = flight_of(r);
      klab_row row{};
      row.kernel = e.kernel->id;
      row.call = e.call;
      row.sequence = ++all.sequence;
      row.nth = ++e.kernel->executions;
      std::memcpy(row.grid, e.grid, sizeof row.grid);
      row.queue = queue.index;
      flights[mine].lines.push_back({row, e.place, e.timed, e.indirect});
    }
  };
  for (std::size_t i = 0; i < count; ++i)
    for (std::uint32_t k = 0; k < sizes[i]; ++k)
      if (const CommandBuffer* c = find_commands(lists[i][k]); c != nullptr && c->recording)
        add(add, c->recording);
  return flights;
}

void commit(Device& d, std::vector<Flight> flights) {
  std::vector<Ref<Recording>> done;
  std::lock_guard hold(d.tracer->lock);
  for (Flight& f : flights)
    if (!f.lines.empty()) d.tracer->flights.push_back(std::move(f));
  if (d.host_query_reset && d.tracer->flights.size() > 64) harvest_locked(d, done);
  link().send_rows(false);
}

void harvest(Device& d, bool idle) {
  // Queries that the GPU has not reset yet hold anything at all, unless the host has reset them.
  if (!idle && !d.host_query_reset) return;
  std::vector<Ref<Recording>> done;  // dropped after the lock: dropping takes it
  {
    std::lock_guard hold(d.tracer->lock);
    if (d.tracer->flights.empty()) return;
    harvest_locked(d, done);
    link().send_rows(false);
  }
}

void flush_rows(Device& d) {
  if (d.tracer == nullptr) return;
  std::vector<Flight> rest;
  std::lock_guard hold(d.tracer->lock);
  for (Flight& f : d.tracer->flights) land(f);
  rest.swap(d.tracer->flights);
  link().send_rows(true);
  for (Flight& f : rest) new Ref<Recording>(std::move(f.recording));  // leaked on purpose: the process ends
}

void finish_tracing(Device& d) {
  harvest(d, true);
  std::vector<Flight> rest;
  {
    std::lock_guard hold(d.tracer->lock);
    for (Flight& f : d.tracer->flights) land(f);
    rest.swap(d.tracer->flights);
    link().send_rows(true);
  }
  rest.clear();
  std::lock_guard hold(d.tracer->lock);
  for (Chunk* c : d.tracer->free_chunks) free_chunk(d, c);
  d.tracer->free_chunks.clear();
}

}  // namespace klab::shim
