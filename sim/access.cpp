// SPDX-License-Identifier: Apache-2.0
// Loads, stores and atomics on memory: scalar, global, flat, and scratch through buffer instructions.
#include <cstring>

#include <fmt/format.h>

#include "access.h"

namespace sim {
namespace {

template <class T>
T get(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

// ---- where ----

enum class Space { global, flat, scratch };

/// Address of a lane: of operands `address` and, for global, `base`; both are where a mnemonic's kind has them.
struct Addresses {
  Lanes<u64> of;
  Addresses(Wave& w, const Instruction& i, std::size_t address, std::size_t base, Space space) {
    const Operand& a = i.operands[address];
    const bool with_base = space == Space::global && i.operands[base].kind == Operand::Kind::scalar && i.operands[base].reg != kNull;
    if (with_base) {
      const u64 from = w.pair(i.operands[base].reg) + static_cast<u64>(i.offset);
      for (u32 l = 0; l < w.lanes; ++l) of[l] = from + w.lanes_of(a.reg)[l];
    } else {
      if (a.width != 2) stop_at(w, "an address of one register");
      for (u32 l = 0; l < w.lanes; ++l)
        of[l] = (w.lanes_of(a.reg)[l] | static_cast<u64>(w.lanes_of(a.reg + 1)[l]) << 32) + static_cast<u64>(i.offset);
    }
  }
};

/// Scratch by a buffer descriptor: this lane's offset. The kernel's stack pointer counts bytes of the whole wave.
u64 scratch_offset(Wave& w, const Instruction& i, std::size_t address, u32 lane) {
  const Operand &descriptor = i.operands[address + 1], &stack = i.operands[address + 2];
  if (w.scalar[descriptor.reg + 3] != kScratchDescriptor) stop_at(w, "a buffer that is not scratch");
  const u32 wave_offset = scalar_value(w, stack);
  const u32 lane_offset = i.has(kOffen) ? w.lanes_of(i.operands[address].reg)[lane] : 0;
  return wave_offset / w.lanes + lane_offset + static_cast<u64>(i.offset);
}

// ---- loads and stores ----

/// How bytes of memory become a register, and back.
enum class Form { dwords, unsigned_part, signed_part, low_half, high_half };

template <u32 bytes, Form form, bool is_signed>
void take(Wave& w, const Instruction& i, const std::byte* p, u32 lane) {
  const u16 reg = i.operands[0].reg;
  if constexpr (form == Form::dwords) {
    for (u32 k = 0; k < bytes / 4; ++k) w.lanes_of(reg + k)[lane] = get<u32>(p + 4 * k);
  } else {
    u32 value = bytes == 1 ? get<u8>(p) : get<u16>(p);
    if (is_signed) value = static_cast<u32>(bytes == 1 ? static_cast<i32>(get<i8>(p)) : static_cast<i32>(get<i16>(p)));
    u32& to = w.lanes_of(reg)[lane];
    if constexpr (form == Form::low_half)
      to = (to & 0xffff0000) | (value & 0xffff);
    else if constexpr (form == Form::high_half)
      to = (to & 0xffff) | value << 16;
    else
      to = value;
  }
}

template <u32 bytes, Form form>
void give(Wave& w, u16 reg, std::byte* p, u32 lane) {
  if constexpr (form == Form::dwords) {
    for (u32 k = 0; k < bytes / 4; ++k) std::memcpy(p + 4 * k, &w.lanes_of(reg + k)[lane], 4);
  } else {
    const u32 value = w.lanes_of(reg)[lane] >> (form == Form::high_half ? 16 : 0);
    std::memcpy(p, &value, bytes);
  }
}

template <Space space, u32 bytes, Form form, bool is_signed>
void load_lanes(Wave& w, const Instruction& i) {
  if constexpr (space == Space::scratch) {
    each_lane(w, [&](u32 l) { take<bytes, form, is_signed>(w, i, w.private_memory(scratch_offset(w, i, 1, l), bytes, l), l); });
  } else {
    const Addresses a(w, i, 1, 2, space);
    each_lane(w, [&](u32 l) {
      const std::byte* p = space == Space::flat ? w.flat(a.of[l], bytes, l, false) : w.global(a.of[l], bytes, false);
      take<bytes, form, is_signed>(w, i, p, l);
    });
  }
}

template <Space space, u32 bytes, Form form>
void store_lanes(Wave& w, const Instruction& i) {
  if constexpr (space == Space::scratch) {
    each_lane(w, [&](u32 l) { give<bytes, form>(w, i.operands[0].reg, w.private_memory(scratch_offset(w, i, 1, l), bytes, l), l); });
  } else {
    const Addresses a(w, i, 0, 2, space);
    each_lane(w, [&](u32 l) {
      std::byte* p = space == Space::flat ? w.flat(a.of[l], bytes, l, true) : w.global(a.of[l], bytes, true);
      give<bytes, form>(w, i.operands[1].reg, p, l);
    });
  }
}

/// Operands as the printer has them: v0, v[1:2], off | v0, v1, s[2:3] | v0, v[1:2] | v0, v1, s[0:3], s32.
std::vector<u8> load_widths(Space space, u8 registers) {
  if (space == Space::global) return {registers, kAny, kAny};
  if (space == Space::flat) return {registers, 2};
  return {registers, kAny, 4, kAny};
}
std::vector<u8> store_widths(Space space, u8 registers) {
  if (space == Space::global) return {kAny, registers, kAny};
  if (space == Space::flat) return {2, registers};
  return {registers, kAny, 4, kAny};
}
constexpr u32 kCacheBits = kOffset | kGlc | kSlc | kDlc;

template <u32 bytes, Form form, bool is_signed = false>
void loads(Table& t, const std::string& name) {
  const u8 n = bytes > 4 ? bytes / 4 : 1;
  t.add("global_load_" + name, {load_lanes<Space::global, bytes, form, is_signed>, load_widths(Space::global, n), kCacheBits});
  t.add("flat_load_" + name, {load_lanes<Space::flat, bytes, form, is_signed>, load_widths(Space::flat, n), kCacheBits});
  t.add("buffer_load_" + name, {load_lanes<Space::scratch, bytes, form, is_signed>, load_widths(Space::scratch, n), kCacheBits | kOffen});
}
template <u32 bytes, Form form>
void stores(Table& t, const std::string& name) {
  const u8 n = bytes > 4 ? bytes / 4 : 1;
  t.add("global_store_" + name, {store_lanes<Space::global, bytes, form>, store_widths(Space::global, n), kCacheBits});
  t.add("flat_store_" + name, {store_lanes<Space::flat, bytes, form>, store_widths(Space::flat, n), kCacheBits});
  t.add("buffer_store_" + name, {store_lanes<Space::scratch, bytes, form>, store_widths(Space::scratch, n), kCacheBits | kOffen});
}

/// Scalar loads: dwords at a base, an offset in a register or in the encoding.
template <u32 dwords>
void load_scalar(Wave& w, const Instruction& i) {
  const Operand& o = i.operands[2];
  u64 address = w.pair(i.operands[1].reg) + static_cast<u64>(i.offset);
  if (o.kind == Operand::Kind::scalar)
    address += o.reg == kNull ? 0 : w.scalar[o.reg];
  else
    address += o.integer;
  const std::byte* p = w.global(address & ~3ull, 4 * dwords, false);
  std::memcpy(&w.scalar[i.operands[0].reg], p, 4 * dwords);
}

// ---- atomics ----

/// D = memory; memory = f(memory, S). One lane after the other, each whole against all other waves and queues.
template <class T, class F>
T exchange(std::byte* at, T operand) {
  auto* p = reinterpret_cast<std::conditional_t<sizeof(T) == 8, u64, u32>*>(at);
  using Bits = std::remove_pointer_t<decltype(p)>;
  Bits old = __atomic_load_n(p, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(p, &old, std::bit_cast<Bits>(F{}(std::bit_cast<T>(old), operand)), false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
  }
  return std::bit_cast<T>(old);
}

template <Space space, class T, class F>
void atomic(Wave& w, const Instruction& i) {
  const std::size_t k = i.has(kGlc) ? 1 : 0;  // the old value is a first operand where it is wanted
  const Addresses a(w, i, k, k + 2, space);
  const u16 data = i.operands[k + 1].reg;
  each_lane(w, [&](u32 l) {
    if (a.of[l] % sizeof(T) != 0) throw MemoryFault{a.of[l], true};
    std::byte* p = space == Space::flat ? w.flat(a.of[l], sizeof(T), l, true) : w.global(a.of[l], sizeof(T), true);
    using Bits = std::conditional_t<sizeof(T) == 8, u64, u32>;
    Bits operand = w.lanes_of(data)[l];
    if constexpr (sizeof(T) == 8) operand |= static_cast<u64>(w.lanes_of(data + 1)[l]) << 32;
    const Bits old = std::bit_cast<Bits>(exchange<T, F>(p, std::bit_cast<T>(operand)));
    if (k == 0) return;
    w.lanes_of(i.operands[0].reg)[l] = static_cast<u32>(old);
    if constexpr (sizeof(T) == 8) w.lanes_of(i.operands[0].reg + 1)[l] = static_cast<u32>(static_cast<u64>(old) >> 32);
  });
}

template <Space space, class T>
void compare_and_swap(Wave& w, const Instruction& i) {
  const std::size_t k = i.has(kGlc) ? 1 : 0;
  const Addresses a(w, i, k, k + 2, space);
  constexpr u32 n = sizeof(T) / 4;
  const u16 data = i.operands[k + 1].reg;  // the new value, then the one that is expected
  each_lane(w, [&](u32 l) {
    if (a.of[l] % sizeof(T) != 0) throw MemoryFault{a.of[l], true};
    auto* p = reinterpret_cast<T*>(space == Space::flat ? w.flat(a.of[l], sizeof(T), l, true) : w.global(a.of[l], sizeof(T), true));
    T wanted = w.lanes_of(data)[l], expected = w.lanes_of(data + n)[l];
    if constexpr (n == 2) {
      wanted |= static_cast<u64>(w.lanes_of(data + 1)[l]) << 32;
      expected |= static_cast<u64>(w.lanes_of(data + 3)[l]) << 32;
    }
    __atomic_compare_exchange_n(p, &expected, wanted, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
    if (k == 0) return;
    w.lanes_of(i.operands[0].reg)[l] = static_cast<u32>(expected);
    if constexpr (n == 2) w.lanes_of(i.operands[0].reg + 1)[l] = static_cast<u32>(expected >> 32);
  });
}

template <class T, class F>
void atomics(Table& t, const std::string& name, F) {
  const std::string full = name + (sizeof(T) == 8 ? "_x2" : "");
  t.add("global_atomic_" + full, {.run = atomic<Space::global, T, F>, .widths = {kAny}, .modifiers = kCacheBits});
  t.add("flat_atomic_" + full, {.run = atomic<Space::flat, T, F>, .widths = {kAny}, .modifiers = kCacheBits});
}
template <class T>
void integer_atomics(Table& t) {
  using S = std::make_signed_t<T>;
  atomics<T>(t, "add", [](T old, T x) { return old + x; });
  atomics<T>(t, "sub", [](T old, T x) { return old - x; });
  atomics<T>(t, "and", [](T old, T x) { return old & x; });
  atomics<T>(t, "or", [](T old, T x) { return old | x; });
  atomics<T>(t, "xor", [](T old, T x) { return old ^ x; });
  atomics<T>(t, "swap", [](T, T x) { return x; });
  atomics<T>(t, "umin", [](T old, T x) { return old < x ? old : x; });
  atomics<T>(t, "umax", [](T old, T x) { return old > x ? old : x; });
  atomics<S>(t, "smin", [](S old, S x) { return old < x ? old : x; });
  atomics<S>(t, "smax", [](S old, S x) { return old > x ? old : x; });
  atomics<T>(t, "inc", [](T old, T x) { return old >= x ? T(0) : old + 1; });
  atomics<T>(t, "dec", [](T old, T x) { return old == 0 || old > x ? x : old - 1; });
  const std::string suffix = sizeof(T) == 8 ? "_x2" : "";
  t.add("global_atomic_cmpswap" + suffix, {.run = compare_and_swap<Space::global, T>, .widths = {kAny}, .modifiers = kCacheBits});
  t.add("flat_atomic_cmpswap" + suffix, {.run = compare_and_swap<Space::flat, T>, .widths = {kAny}, .modifiers = kCacheBits});
}

}  // namespace

void add_memory(Table& t) {
  loads<4, Form::dwords>(t, "dword");
  loads<8, Form::dwords>(t, "dwordx2");
  loads<12, Form::dwords>(t, "dwordx3");
  loads<16, Form::dwords>(t, "dwordx4");
  loads<1, Form::unsigned_part>(t, "ubyte");
  loads<1, Form::signed_part, true>(t, "sbyte");
  loads<2, Form::unsigned_part>(t, "ushort");
  loads<2, Form::signed_part, true>(t, "sshort");
  loads<1, Form::low_half>(t, "ubyte_d16");
  loads<1, Form::high_half>(t, "ubyte_d16_hi");
  loads<1, Form::low_half, true>(t, "sbyte_d16");
  loads<1, Form::high_half, true>(t, "sbyte_d16_hi");
  loads<2, Form::low_half>(t, "short_d16");
  loads<2, Form::high_half>(t, "short_d16_hi");
  stores<4, Form::dwords>(t, "dword");
  stores<8, Form::dwords>(t, "dwordx2");
  stores<12, Form::dwords>(t, "dwordx3");
  stores<16, Form::dwords>(t, "dwordx4");
  stores<1, Form::unsigned_part>(t, "byte");
  stores<2, Form::unsigned_part>(t, "short");
  stores<1, Form::high_half>(t, "byte_d16_hi");
  stores<2, Form::high_half>(t, "short_d16_hi");
  t.add("s_load_dword", {load_scalar<1>, {1, 2, kAny}, kOffset | kGlc | kDlc});
  t.add("s_load_dwordx2", {load_scalar<2>, {2, 2, kAny}, kOffset | kGlc | kDlc});
  t.add("s_load_dwordx4", {load_scalar<4>, {4, 2, kAny}, kOffset | kGlc | kDlc});
  t.add("s_load_dwordx8", {load_scalar<8>, {8, 2, kAny}, kOffset | kGlc | kDlc});
  t.add("s_load_dwordx16", {load_scalar<16>, {16, 2, kAny}, kOffset | kGlc | kDlc});
}

void add_atomics(Table& t) {
  integer_atomics<u32>(t);
  integer_atomics<u64>(t);
  atomics<f32>(t, "fmin", [](f32 old, f32 x) { return std::fmin(old, x); });
  atomics<f32>(t, "fmax", [](f32 old, f32 x) { return std::fmax(old, x); });
}

}  // namespace sim
