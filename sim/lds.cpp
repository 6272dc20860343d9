// SPDX-License-Identifier: Apache-2.0
// LDS instructions, exchanges between lanes through it, and global wave sync. Reads beyond LDS give 0, writes there are dropped.
#include <cstring>

#include <fmt/format.h>

#include "access.h"

namespace sim {
namespace {

u64 address_of(Wave& w, const Instruction& i, std::size_t operand, u32 lane, i64 offset) {
  if (i.has(kGds)) stop_at(w, "global data share is not simulated");
  return static_cast<u64>(w.lanes_of(i.operands[operand].reg)[lane]) + static_cast<u64>(offset);
}

template <class T>
T get(Wave& w, u64 address) {
  T value{};
  if (const std::byte* p = w.local(address, sizeof(T))) std::memcpy(&value, p, sizeof value);
  return value;
}
template <class T>
void put(Wave& w, u64 address, T value) {
  if (std::byte* p = w.local(address, sizeof(T))) std::memcpy(p, &value, sizeof value);
}

u64 pair_of(Wave& w, u32 reg, u32 lane) { return w.lanes_of(reg)[lane] | static_cast<u64>(w.lanes_of(reg + 1)[lane]) << 32; }
void set_pair_of(Wave& w, u32 reg, u32 lane, u64 value) {
  w.lanes_of(reg)[lane] = static_cast<u32>(value);
  w.lanes_of(reg + 1)[lane] = static_cast<u32>(value >> 32);
}
template <class T>
T register_value(Wave& w, u32 reg, u32 lane) {
  if constexpr (sizeof(T) == 8)
    return std::bit_cast<T>(pair_of(w, reg, lane));
  else
    return std::bit_cast<T>(w.lanes_of(reg)[lane]);
}
template <class T>
void set_register_value(Wave& w, u32 reg, u32 lane, T value) {
  if constexpr (sizeof(T) == 8)
    set_pair_of(w, reg, lane, std::bit_cast<u64>(value));
  else
    w.lanes_of(reg)[lane] = std::bit_cast<u32>(value);
}

template <u32 dwords>
void read(Wave& w, const Instruction& i) {
  each_lane(w, [&](u32 l) {
    const u64 a = address_of(w, i, 1, l, i.offset);
    u32 values[dwords];
    for (u32 k = 0; k < dwords; ++k) values[k] = get<u32>(w, a + 4 * k);
    for (u32 k = 0; k < dwords; ++k) w.lanes_of(i.operands[0].reg + k)[l] = values[k];
  });
}
template <u32 dwords>
void write(Wave& w, const Instruction& i) {
  each_lane(w, [&](u32 l) {
    const u64 a = address_of(w, i, 0, l, i.offset);
    for (u32 k = 0; k < dwords; ++k) put(w, a + 4 * k, w.lanes_of(i.operands[1].reg + k)[l]);
  });
}
/// A part of a register: T with its sign; `half` 0 the whole, 1 the lower, 2 the upper.
template <class T, int half>
void read_part(Wave& w, const Instruction& i) {
  each_lane(w, [&](u32 l) {
    const u32 value = static_cast<u32>(static_cast<i32>(get<T>(w, address_of(w, i, 1, l, i.offset))));
    u32& to = w.lanes_of(i.operands[0].reg)[l];
    to = half == 0 ? value : half == 1 ? (to & 0xffff0000) | (value & 0xffff) : (to & 0xffff) | value << 16;
  });
}
template <class T, bool upper>
void write_part(Wave& w, const Instruction& i) {
  each_lane(w, [&](u32 l) { put(w, address_of(w, i, 0, l, i.offset), static_cast<T>(w.lanes_of(i.operands[1].reg)[l] >> (upper ? 16 : 0))); });
}
/// Two values at two offsets, which count elements (or 64 of them).
template <class T, u32 stride>
void read_two(Wave& w, const Instruction& i) {
  each_lane(w, [&](u32 l) {
    const u64 a = address_of(w, i, 1, l, 0);
    const T first = get<T>(w, a + static_cast<u64>(i.offset) * sizeof(T) * stride), second = get<T>(w, a + static_cast<u64>(i.offset1) * sizeof(T) * stride);
    set_register_value(w, i.operands[0].reg, l, first);
    set_register_value(w, i.operands[0].reg + sizeof(T) / 4, l, second);
  });
}
template <class T, u32 stride>
void write_two(Wave& w, const Instruction& i) {
  each_lane(w, [&](u32 l) {
    const u64 a = address_of(w, i, 0, l, 0);
    put(w, a + static_cast<u64>(i.offset) * sizeof(T) * stride, register_value<T>(w, i.operands[1].reg, l));
    put(w, a + static_cast<u64>(i.offset1) * sizeof(T) * stride, register_value<T>(w, i.operands[2].reg, l));
  });
}

/// Waves of a workgroup take turns between instructions, so nothing comes between reading and writing.
template <class T, class F, bool returns>
void atomic(Wave& w, const Instruction& i) {
  constexpr std::size_t k = returns ? 1 : 0;
  each_lane(w, [&](u32 l) {
    const u64 a = address_of(w, i, k, l, i.offset);
    const T old = get<T>(w, a);
    put(w, a, static_cast<T>(F{}(old, register_value<T>(w, i.operands[k + 1].reg, l))));
    if (returns) set_register_value(w, i.operands[0].reg, l, old);
  });
}
template <class T, bool returns>
void compare_and_store(Wave& w, const Instruction& i) {
  constexpr std::size_t k = returns ? 1 : 0;
  each_lane(w, [&](u32 l) {
    const u64 a = address_of(w, i, k, l, i.offset);
    const T old = get<T>(w, a);
    if (old == register_value<T>(w, i.operands[k + 1].reg, l)) put(w, a, register_value<T>(w, i.operands[k + 2].reg, l));
    if (returns) set_register_value(w, i.operands[0].reg, l, old);
  });
}

template <class T, class F>
void atomics(Table& t, const std::string& name, const std::string& type, F) {
  constexpr u8 n = sizeof(T) / 4;
  t.add("ds_" + name + "_" + type, {.run = atomic<T, F, false>, .widths = {1, n}, .modifiers = kOffset | kGds});
  t.add("ds_" + name + "_rtn_" + type, {.run = atomic<T, F, true>, .widths = {n, 1, n}, .modifiers = kOffset | kGds});
}
template <class T>
void integer_atomics(Table& t, const std::string& bits) {
  using S = std::make_signed_t<T>;
  constexpr u8 n = sizeof(T) / 4;
  atomics<T>(t, "add", "u" + bits, [](T old, T x) { return old + x; });
  atomics<T>(t, "sub", "u" + bits, [](T old, T x) { return old - x; });
  atomics<T>(t, "rsub", "u" + bits, [](T old, T x) { return x - old; });
  atomics<T>(t, "inc", "u" + bits, [](T old, T x) { return old >= x ? T(0) : old + 1; });
  atomics<T>(t, "dec", "u" + bits, [](T old, T x) { return old == 0 || old > x ? x : old - 1; });
  atomics<T>(t, "min", "u" + bits, [](T old, T x) { return old < x ? old : x; });
  atomics<T>(t, "max", "u" + bits, [](T old, T x) { return old > x ? old : x; });
  atomics<S>(t, "min", "i" + bits, [](S old, S x) { return old < x ? old : x; });
  atomics<S>(t, "max", "i" + bits, [](S old, S x) { return old > x ? old : x; });
  atomics<T>(t, "and", "b" + bits, [](T old, T x) { return old & x; });
  atomics<T>(t, "or", "b" + bits, [](T old, T x) { return old | x; });
  atomics<T>(t, "xor", "b" + bits, [](T old, T x) { return old ^ x; });
  auto exchange = [](T, T x) { return x; };
  t.add("ds_wrxchg_rtn_b" + bits, {.run = atomic<T, decltype(exchange), true>, .widths = {n, 1, n}, .modifiers = kOffset | kGds});
  t.add("ds_cmpst_b" + bits, {.run = compare_and_store<T, false>, .widths = {1, n, n}, .modifiers = kOffset | kGds});
  t.add("ds_cmpst_rtn_b" + bits, {.run = compare_and_store<T, true>, .widths = {n, 1, n, n}, .modifiers = kOffset | kGds});
}

// ---- between lanes ----

/// D = S1 of the lane that S0 / 4 names; lanes that do not run give 0.
void permute_backward(Wave& w, const Instruction& i) {
  Lanes<u32> out{};
  const u64 exec = w.exec();
  each_lane(w, [&](u32 l) {
    const u32 from = static_cast<u32>(address_of(w, i, 1, l, i.offset)) / 4 % w.lanes;
    out[l] = (exec >> from & 1) != 0 ? w.lanes_of(i.operands[2].reg)[from] : 0;
  });
  each_lane(w, [&](u32 l) { w.lanes_of(i.operands[0].reg)[l] = out[l]; });
}
/// The lane that S0 / 4 names gets S1; nobody's lanes get 0.
void permute_forward(Wave& w, const Instruction& i) {
  Lanes<u32> out{};
  each_lane(w, [&](u32 l) { out[static_cast<u32>(address_of(w, i, 1, l, i.offset)) / 4 % w.lanes] = w.lanes_of(i.operands[2].reg)[l]; });
  each_lane(w, [&](u32 l) { w.lanes_of(i.operands[0].reg)[l] = out[l]; });
}
/// Within 4 lanes by pairs of bits, or within 32 by masks (and, or, xor).
void swizzle(Wave& w, const Instruction& i) {
  const u32 how = i.raw & 0xffff;  // the encoding, however it is printed
  Lanes<u32> out{};
  const u64 exec = w.exec();
  each_lane(w, [&](u32 l) {
    const u32 from = (how & 0x8000) != 0 ? (l & ~3u) + (how >> 2 * (l & 3) & 3)
                                         : (l & 32) | ((((l & 31) & (how & 31)) | (how >> 5 & 31)) ^ (how >> 10 & 31));
    out[l] = (exec >> from & 1) != 0 ? w.lanes_of(i.operands[1].reg)[from] : 0;
  });
  each_lane(w, [&](u32 l) { w.lanes_of(i.operands[0].reg)[l] = out[l]; });
}

// ---- barriers of a whole grid ----

void grid_init(Wave& w, const Instruction& i) {
  // One more than the value arrive until they all go on.
  w.grid->wanted = w.lanes_of(i.operands[0].reg)[w.exec() != 0 ? static_cast<u32>(__builtin_ctzll(w.exec())) : 0] + 1;
  w.grid->arrived = 0;
}
void grid_barrier(Wave& w, const Instruction&) {
  w.waits_for = w.grid->passed;
  w.state = Wave::State::grid_barrier;
  if (++w.grid->arrived < w.grid->wanted) return;
  w.grid->arrived = 0;
  ++w.grid->passed;
}

}  // namespace

void add_lds(Table& t) {
  constexpr u32 kOne = kOffset | kGds, kTwo = kOffsets | kGds;
  t.add("ds_read_b32", {read<1>, {1, 1}, kOne});
  t.add("ds_read_b64", {read<2>, {2, 1}, kOne});
  t.add("ds_read_b96", {read<3>, {3, 1}, kOne});
  t.add("ds_read_b128", {read<4>, {4, 1}, kOne});
  t.add("ds_write_b32", {write<1>, {1, 1}, kOne});
  t.add("ds_write_b64", {write<2>, {1, 2}, kOne});
  t.add("ds_write_b96", {write<3>, {1, 3}, kOne});
  t.add("ds_write_b128", {write<4>, {1, 4}, kOne});
  t.add("ds_read_u8", {read_part<u8, 0>, {1, 1}, kOne});
  t.add("ds_read_i8", {read_part<i8, 0>, {1, 1}, kOne});
  t.add("ds_read_u16", {read_part<u16, 0>, {1, 1}, kOne});
  t.add("ds_read_i16", {read_part<i16, 0>, {1, 1}, kOne});
  t.add("ds_read_u8_d16", {read_part<u8, 1>, {1, 1}, kOne});
  t.add("ds_read_u8_d16_hi", {read_part<u8, 2>, {1, 1}, kOne});
  t.add("ds_read_i8_d16", {read_part<i8, 1>, {1, 1}, kOne});
  t.add("ds_read_i8_d16_hi", {read_part<i8, 2>, {1, 1}, kOne});
  t.add("ds_read_u16_d16", {read_part<u16, 1>, {1, 1}, kOne});
  t.add("ds_read_u16_d16_hi", {read_part<u16, 2>, {1, 1}, kOne});
  t.add("ds_write_b8", {write_part<u8, false>, {1, 1}, kOne});
  t.add("ds_write_b16", {write_part<u16, false>, {1, 1}, kOne});
  t.add("ds_write_b8_d16_hi", {write_part<u8, true>, {1, 1}, kOne});
  t.add("ds_write_b16_d16_hi", {write_part<u16, true>, {1, 1}, kOne});
  t.add("ds_read2_b32", {read_two<u32, 1>, {2, 1}, kTwo});
  t.add("ds_read2_b64", {read_two<u64, 1>, {4, 1}, kTwo});
  t.add("ds_read2st64_b32", {read_two<u32, 64>, {2, 1}, kTwo});
  t.add("ds_read2st64_b64", {read_two<u64, 64>, {4, 1}, kTwo});
  t.add("ds_write2_b32", {write_two<u32, 1>, {1, 1, 1}, kTwo});
  t.add("ds_write2_b64", {write_two<u64, 1>, {1, 2, 2}, kTwo});
  t.add("ds_write2st64_b32", {write_two<u32, 64>, {1, 1, 1}, kTwo});
  t.add("ds_write2st64_b64", {write_two<u64, 64>, {1, 2, 2}, kTwo});
  integer_atomics<u32>(t, "32");
  integer_atomics<u64>(t, "64");
  atomics<f32>(t, "add", "f32", [](f32 old, f32 x) { return old + x; });
  atomics<f32>(t, "min", "f32", [](f32 old, f32 x) { return std::fmin(old, x); });
  atomics<f32>(t, "max", "f32", [](f32 old, f32 x) { return std::fmax(old, x); });
  t.add("ds_bpermute_b32", {permute_backward, {1, 1, 1}, kOne});
  t.add("ds_permute_b32", {permute_forward, {1, 1, 1}, kOne});
  t.add("ds_swizzle_b32", {swizzle, {1, 1}, kOne | kSwizzle});
  t.add("ds_gws_init", {grid_init, {1}, kOne});
  t.add("ds_gws_barrier", {grid_barrier, {1}, kOne});
}

}  // namespace sim
