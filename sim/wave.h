// SPDX-License-Identifier: Apache-2.0
// State of a wave and of its workgroup, and what an instruction's handler may do to it.
#pragma once
#include <array>
#include <memory>
#include <vector>

#include "memory.h"
#include "numbers.h"

namespace sim {

/// Numbers of special scalar registers, as the encoding has them (RDNA2 ISA, table of scalar operands).
enum ScalarRegister : u16 { kVcc = 106, kM0 = 124, kNull = 125, kExec = 126, kScalarRegisters = 128 };

inline constexpr u32 kMostLanes = 64, kVectorRegisters = 256;

struct Instruction;

struct Workgroup {
  std::vector<std::byte> lds;
  u32 waves = 0, arrived = 0, ended = 0;  // at the barrier
  u32 barrier = 0;                        // how often all arrived
};

/// Global wave sync: barriers of a whole cooperative grid.
struct GridBarrier {
  u32 wanted = 0, arrived = 0, passed = 0;
};

struct Wave {
  enum class State : u8 { ready, barrier, grid_barrier, ended };

  u64 pc = 0;
  std::array<u32, kScalarRegisters> scalar{};
  bool scc = false;
  u32 lanes = 32;
  State state = State::ready;
  bool yields = false;   // it sleeps or waits: the others' turn
  u32 waits_for = 0;     // the barrier's count when it arrived
  u8 round_mode = 0, denormals_f32 = 3, denormals_wide = 3;  // of the MODE register: 0 flushes, 3 keeps
  std::vector<u32> vector;  // register by register, 64 lanes each
  std::vector<std::byte> scratch;  // lane by lane
  u32 scratch_bytes = 0;           // of a lane
  Workgroup* group = nullptr;
  GridBarrier* grid = nullptr;
  const Instruction* now = nullptr;
  bool jumped = false;
  Memory::Window window;  // the allocation that was used last

  u64 lane_mask() const { return lanes == 64 ? ~0ull : 0xffffffffull; }
  u64 pair(u32 r) const { return scalar[r] | static_cast<u64>(scalar[r + 1]) << 32; }
  void set_pair(u32 r, u64 value) {
    if (r == kNull) return;
    scalar[r] = static_cast<u32>(value);
    scalar[r + 1] = static_cast<u32>(value >> 32);
  }
  /// A bit for each lane: two registers of a wave64, one of a wave32.
  u64 mask(u32 r) const { return lanes == 64 ? pair(r) : scalar[r]; }
  void set_mask(u32 r, u64 value) {
    if (r == kNull) return;
    scalar[r] = static_cast<u32>(value);
    if (lanes == 64) scalar[r + 1] = static_cast<u32>(value >> 32);
  }
  u64 exec() const { return mask(kExec); }
  void set_exec(u64 value) { set_mask(kExec, value); }
  u32* lanes_of(u32 r) { return &vector[r * kMostLanes]; }
  void jump(u64 to) {
    pc = to;
    jumped = true;
  }

  /// Global memory, by its address. Throws MemoryFault.
  std::byte* global(u64 address, u32 size, bool write) {
    if (window.generation != memory().generation() || !window.holds(address, size) || (write && !window.writable))
      window = memory().window(address, size, write);
    return reinterpret_cast<std::byte*>(address) + window.to_host;
  }
  /// A lane's scratch; an access beyond it faults.
  std::byte* private_memory(u64 offset, u32 size, u32 lane) {
    if (offset + size > scratch_bytes) throw MemoryFault{kScratchAperture + offset, true};
    return &scratch[static_cast<u64>(lane) * scratch_bytes + offset];
  }
  /// LDS; null beyond what the workgroup has, where reads give 0 and writes are dropped.
  std::byte* local(u64 offset, u32 size) { return offset + size <= group->lds.size() ? &group->lds[offset] : nullptr; }
  /// What a flat address means.
  std::byte* flat(u64 address, u32 size, u32 lane, bool write) {
    if (address >> 32 == kLdsAperture >> 32) {
      std::byte* p = local(address & 0xffffffff, size);
      if (p == nullptr) throw MemoryFault{address, write};
      return p;
    }
    if (address >> 32 == kScratchAperture >> 32) return private_memory(address & 0xffffffff, size, lane);
    return global(address, size, write);
  }
};

/// Stops with the text of the instruction that runs.
[[noreturn]] void stop_at(const Wave& wave, const std::string& why);

}  // namespace sim
