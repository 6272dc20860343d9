// SPDX-License-Identifier: Apache-2.0
// Runs one kernel: sets waves up as its descriptor says, keeps several workgroups at once, and gives each wave its slice of time, so that
// waves, workgroups and queues that wait for each other all get on.
#include <hsa/amd_hsa_kernel_code.h>

#include <algorithm>
#include <cstring>
#include <deque>

#include <fmt/format.h>

#include "access.h"
#include "queue.h"

namespace sim {
namespace {

constexpr u32 kSlice = 2000;              // instructions of a wave at a time
constexpr u32 kResidentPerUnit = 8;       // workgroups of a compute unit at once
constexpr u32 kLdsGranule = 512, kMostLds = 64 << 10, kMostThreads = 1024;
constexpr u32 kPoison = 0xdeadbeef;       // registers hold what was there before: nothing that can be relied on

/// Of the kernel descriptor; the runtime's own old-style kernels have the same fields at the same places.
struct Descriptor {
  i64 entry = 0;
  u32 resources1 = 0, resources2 = 0;
  u16 properties = 0;

  explicit Descriptor(u64 address) {
    const std::byte* p = memory().host(address, 64, false);
    std::memcpy(&entry, p + 16, 8);
    std::memcpy(&resources1, p + 48, 4);
    std::memcpy(&resources2, p + 52, 4);
    std::memcpy(&properties, p + 56, 2);
  }
  bool has(u32 property) const { return (properties >> property & 1) != 0; }
  u32 lanes() const { return has(10) ? 32 : 64; }
  u32 user_registers() const { return resources2 >> 1 & 31; }
  bool workgroup_id(u32 dimension) const { return (resources2 >> (7 + dimension) & 1) != 0; }
  u32 workitem_dimensions() const { return resources2 >> 11 & 3; }
  u8 float_mode() const { return static_cast<u8>(resources1 >> 12); }
};
enum Property { kPrivateBuffer, kDispatchPointer, kQueuePointer, kKernargPointer, kDispatchId, kFlatScratch, kPrivateSize };

struct Geometry {
  std::array<u32, 3> grid, group, groups;
  explicit Geometry(const hsa_kernel_dispatch_packet_t& p)
      : grid{p.grid_size_x, p.grid_size_y, p.grid_size_z}, group{p.workgroup_size_x, p.workgroup_size_y, p.workgroup_size_z}, groups{} {
    const u32 dimensions = p.setup & 3;
    for (u32 k = 0; k < 3; ++k) {
      if (k >= dimensions) grid[k] = group[k] = 1;
      if (grid[k] == 0 || group[k] == 0) throw QueueFailure{QueueError::invalid_dimension};
      groups[k] = (grid[k] - 1) / group[k] + 1;
    }
    if (static_cast<u64>(group[0]) * group[1] * group[2] > kMostThreads) throw QueueFailure{QueueError::group_too_large};
  }
  u32 threads() const { return group[0] * group[1] * group[2]; }
  u64 count() const { return static_cast<u64>(groups[0]) * groups[1] * groups[2]; }
};

/// Shared by all queues of a GPU, as the hardware's is.
GridBarrier& grid_barrier() {
  static GridBarrier each[kMostGpus];
  return each[this_gpu() - kFirstGpu];
}

struct Resident {
  Workgroup group;
  std::vector<std::unique_ptr<Wave>> waves;
};

class Dispatch {
 public:
  Dispatch(const hsa_kernel_dispatch_packet_t& packet, u64 packet_address, u64 queue_address)
      : packet_(packet), packet_address_(packet_address), queue_address_(queue_address), geometry_(packet), descriptor_(packet.kernel_object) {
    if (packet.group_segment_size > kMostLds) throw QueueFailure{QueueError::invalid_group_memory};
    if ((descriptor_.float_mode() & 15) != 0) stop("a kernel that does not round to the nearest");
  }

  void run(const std::atomic<bool>& stopping) {
    u64 next = 0;
    while ((next < geometry_.count() || !resident_.empty()) && !stopping) {
      while (next < geometry_.count() && resident_.size() < kComputeUnits * kResidentPerUnit) {
        resident_.push_back(make(next));
        ++next;
      }
      for (auto& r : resident_) turn(*r);
      std::erase_if(resident_, [&](std::unique_ptr<Resident>& r) {
        if (r->group.ended < r->group.waves) return false;
        for (auto& wave : r->waves) spare_.push_back(std::move(wave));
        return true;
      });
    }
  }

 private:
  std::unique_ptr<Resident> make(u64 index) {
    auto r = std::make_unique<Resident>();
    const std::array<u32, 3> id = {static_cast<u32>(index % geometry_.groups[0]), static_cast<u32>(index / geometry_.groups[0] % geometry_.groups[1]),
                                   static_cast<u32>(index / geometry_.groups[0] / geometry_.groups[1])};
    r->group.lds.assign((packet_.group_segment_size + kLdsGranule - 1) / kLdsGranule * kLdsGranule, std::byte{0xa5});
    r->group.waves = (geometry_.threads() - 1) / descriptor_.lanes() + 1;
    for (u32 w = 0; w < r->group.waves; ++w) r->waves.push_back(make_wave(*r, id, w));
    return r;
  }

  std::unique_ptr<Wave> make_wave(Resident& r, const std::array<u32, 3>& id, u32 number) {
    std::unique_ptr<Wave> wave;
    if (!spare_.empty()) {
      wave = std::move(spare_.back());
      spare_.pop_back();
    } else {
      wave = std::make_unique<Wave>();
      wave->vector.resize((kVectorRegisters + 1) * kMostLanes);
    }
    Wave& w = *wave;
    w.pc = packet_.kernel_object + static_cast<u64>(descriptor_.entry);
    w.lanes = descriptor_.lanes();
    w.state = Wave::State::ready;
    w.scc = w.jumped = w.yields = false;
    w.now = nullptr;
    w.group = &r.group;
    w.grid = &grid_barrier();
    const u8 mode = descriptor_.float_mode();
    w.round_mode = mode & 15;
    w.denormals_f32 = mode >> 4 & 3;
    w.denormals_wide = mode >> 6 & 3;
    std::fill(w.vector.begin(), w.vector.end(), kPoison);
    w.scalar.fill(kPoison);
    w.scratch_bytes = packet_.private_segment_size;
    w.scratch.assign(static_cast<std::size_t>(w.scratch_bytes) * w.lanes, std::byte{0xa5});
    set_scalars(w, id);
    set_items(w, id, number);
    return wave;
  }

  void set_scalars(Wave& w, const std::array<u32, 3>& id) {
    u32 r = 0;
    const auto pair = [&](u64 value) {
      w.set_pair(r, value);
      r += 2;
    };
    if (descriptor_.has(kPrivateBuffer)) {
      w.scalar[0] = w.scalar[1] = 0;
      w.scalar[2] = ~0u;
      w.scalar[3] = kScratchDescriptor;
      r = 4;
    }
    if (descriptor_.has(kDispatchPointer)) pair(packet_address_);
    if (descriptor_.has(kQueuePointer)) pair(queue_address_);
    if (descriptor_.has(kKernargPointer)) pair(reinterpret_cast<u64>(packet_.kernarg_address));
    if (descriptor_.has(kDispatchId)) pair(0);
    if (descriptor_.has(kFlatScratch)) pair(0);
    if (descriptor_.has(kPrivateSize)) w.scalar[r] = packet_.private_segment_size;
    r = descriptor_.user_registers();
    for (u32 k = 0; k < 3; ++k)
      if (descriptor_.workgroup_id(k)) w.scalar[r++] = id[k];
    if ((descriptor_.resources2 >> 10 & 1) != 0) w.scalar[r++] = 0;  // information that no compiler reads
    if ((descriptor_.resources2 & 1) != 0) w.scalar[r++] = 0;        // where the wave's scratch begins
    w.scalar[kM0] = 0;
  }

  /// Work-item ids, and which lanes there are: a partial workgroup has some whose place is beyond the grid.
  void set_items(Wave& w, const std::array<u32, 3>& id, u32 number) {
    const auto& group = geometry_.group;
    u64 mask = 0;
    for (u32 l = 0; l < w.lanes; ++l) {
      const u32 item = number * w.lanes + l;
      if (item >= geometry_.threads()) break;
      const std::array<u32, 3> at = {item % group[0], item / group[0] % group[1], item / group[0] / group[1]};
      bool inside = true;
      for (u32 k = 0; k < 3; ++k) {
        if (k <= descriptor_.workitem_dimensions()) w.lanes_of(k)[l] = at[k];
        inside = inside && at[k] < geometry_.grid[k] - id[k] * group[k];
      }
      if (inside) mask |= 1ull << l;
    }
    w.scalar[kExec + 1] = w.scalar[kVcc] = w.scalar[kVcc + 1] = 0;
    w.set_exec(mask);
    if (mask == 0) {  // no work-item of it is in the grid: the hardware launches no such wave
      w.state = Wave::State::ended;
      ++w.group->ended;
    }
  }

  void turn(Resident& r) {
    for (auto& wave : r.waves) {
      if (wave->state == Wave::State::barrier && wave->waits_for != r.group.barrier) wave->state = Wave::State::ready;
      if (wave->state == Wave::State::grid_barrier && wave->waits_for != wave->grid->passed) wave->state = Wave::State::ready;
      if (wave->state != Wave::State::ready) continue;
      run_slice(*wave, kSlice);
      if (wave->state == Wave::State::ended) ++r.group.ended;
      if (wave->state == Wave::State::barrier) {
        wave->waits_for = r.group.barrier;
        ++r.group.arrived;
      }
      // Waves that have ended are not waited for.
      if (r.group.arrived > 0 && r.group.arrived + r.group.ended >= r.group.waves) {
        r.group.arrived = 0;
        ++r.group.barrier;
      }
    }
  }

  const hsa_kernel_dispatch_packet_t& packet_;
  u64 packet_address_, queue_address_;
  Geometry geometry_;
  Descriptor descriptor_;
  std::deque<std::unique_ptr<Resident>> resident_;
  std::vector<std::unique_ptr<Wave>> spare_;
};

}  // namespace

void run_dispatch(const hsa_kernel_dispatch_packet_t& packet, u64 packet_address, u64 queue_address, const std::atomic<bool>& stopping) {
  log(1, "dispatch: kernel %llx, grid %u %u %u, workgroup %u %u %u, LDS %u, scratch %u", static_cast<unsigned long long>(packet.kernel_object), packet.grid_size_x,
      packet.grid_size_y, packet.grid_size_z, packet.workgroup_size_x, packet.workgroup_size_y, packet.workgroup_size_z, packet.group_segment_size,
      packet.private_segment_size);
  if (packet.kernel_object == 0) throw QueueFailure{QueueError::invalid_code};
  const CodeUse use;
  Dispatch(packet, packet_address, queue_address).run(stopping);
}

}  // namespace sim
