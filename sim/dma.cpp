// SPDX-License-Identifier: Apache-2.0
// Packets of DMA queues: SDMA 5's, as far as the runtime writes them (its sdma_registers.h names the fields).
#include <cstring>

#include <fmt/format.h>

#include "events.h"
#include "queue.h"

namespace sim {
namespace {

enum Operation : u32 { kNop = 0, kCopy = 1, kFence = 5, kTrap = 6, kPoll = 8, kAtomic = 10, kFill = 11, kTimestamp = 13, kCacheControl = 17 };
enum CopyKind : u32 { kLinear = 0, kRectangle = 4 };
constexpr u32 kAtomicAdd64 = 47;

class Packet {
 public:
  Packet(const Queue& queue, u64 at) : queue_(queue), at_(at) {}
  u32 operator[](u32 i) const {
    u32 value = 0;
    std::memcpy(&value, queue_.ring + (at_ + 4 * i) % queue_.bytes, sizeof value);
    return value;
  }
  u64 wide(u32 i) const { return (*this)[i] | static_cast<u64>((*this)[i + 1]) << 32; }
  u32 operation() const { return (*this)[0] & 0xff; }
  u32 kind() const { return (*this)[0] >> 8 & 0xff; }

 private:
  const Queue& queue_;
  u64 at_;
};

u32 bits(u32 value, u32 from, u32 count) { return value >> from & ((1u << count) - 1); }

void copy(u64 to, u64 from, u64 size) {
  std::byte* destination = memory().host(to, size, true);
  std::memmove(destination, memory().host(from, size, false), size);
}

/// Three-dimensional part of one pitched image to another; positions and pitches are in elements.
void copy_rectangle(const Packet& p) {
  struct Side {
    u64 address;
    u32 x, y, z;
    u64 pitch, slice;
  };
  const auto side = [&](u32 i) {
    return Side{p.wide(i), bits(p[i + 2], 0, 14), bits(p[i + 2], 16, 14), bits(p[i + 3], 0, 11), (p[i + 3] >> 13) + 1ull, bits(p[i + 4], 0, 28) + 1ull};
  };
  const u32 element = 1u << (p[0] >> 29);
  const Side from = side(1), to = side(6);
  const u32 width = bits(p[11], 0, 14) + 1, height = bits(p[11], 16, 14) + 1, depth = bits(p[12], 0, 11) + 1;
  const auto at = [&](const Side& s, u32 y, u32 z) { return s.address + ((s.z + z) * s.slice + (s.y + y) * s.pitch + s.x) * element; };
  for (u32 z = 0; z < depth; ++z)
    for (u32 y = 0; y < height; ++y) copy(at(to, y, z), at(from, y, z), static_cast<u64>(width) * element);
}

void poll(const Packet& p, const Queue& queue) {
  const u64 address = p.wide(1);
  const u32 reference = p[3], mask = p[4], compare = bits(p[0], 28, 3);
  for (Backoff backoff; !queue.stopping; backoff.wait()) {
    const u32 v = __atomic_load_n(reinterpret_cast<u32*>(memory().host(address, 4, false)), __ATOMIC_ACQUIRE) & mask;
    const bool met[] = {true, v < reference, v <= reference, v == reference, v != reference, v >= reference, v > reference, true};
    if (met[compare]) return;
  }
}

/// Dwords of the packet.
u32 take(const Packet& p, const Queue& queue) {
  log(1, "queue %llu: DMA packet %u.%u", static_cast<unsigned long long>(queue.id), p.operation(), p.kind());
  switch (p.operation()) {
    case kNop: return 1;
    case kCopy:
      if (p.kind() == kLinear) {
        copy(p.wide(5), p.wide(3), bits(p[1], 0, 22) + 1ull);
        return 7;
      }
      if (p.kind() == kRectangle) {
        copy_rectangle(p);
        return 13;
      }
      break;
    case kFence:
      __atomic_store_n(reinterpret_cast<u32*>(memory().host(p.wide(1), 4, true)), p[3], __ATOMIC_RELEASE);
      return 4;
    case kTrap: set_event(p[1] & 0xfffffff); return 2;
    case kPoll: poll(p, queue); return 6;
    case kAtomic:
      if (p[0] >> 25 != kAtomicAdd64) break;
      __atomic_fetch_add(reinterpret_cast<u64*>(memory().host(p.wide(1), 8, true)), p.wide(3), __ATOMIC_ACQ_REL);
      return 8;
    case kFill: {
      const u64 size = (bits(p[4], 0, 22) + 4ull) / 4 * 4;
      std::byte* to = memory().host(p.wide(1), size, true);
      const u32 value = p[3];
      for (u64 i = 0; i < size; i += 4) std::memcpy(to + i, &value, 4);
      return 5;
    }
    case kTimestamp: {
      const u64 now = gpu_clock();
      std::memcpy(memory().host(p.wide(1), 8, true), &now, 8);
      return 3;
    }
    case kCacheControl: return 5;
    default: break;
  }
  stop(fmt::format("DMA packet {:08x} is not known", p[0]));
}

}  // namespace

void run_dma(Queue& queue) {
  Backoff backoff;
  u64 read = 0;
  while (!queue.stopping) {
    const u64 rung = *queue.doorbell;
    if (rung == ~0ull || read >= rung) {
      backoff.wait();
      continue;
    }
    backoff.reset();
    try {
      read += 4ull * take(Packet(queue, read), queue);
    } catch (const MemoryFault& fault) {
      report_fault(fault.address, fault.write);
      return stay_stopped(queue);
    }
    __atomic_store_n(queue.read_pointer, read, __ATOMIC_RELEASE);
  }
}

}  // namespace sim
