// SPDX-License-Identifier: Apache-2.0
// Scalar instructions: arithmetic, comparisons, and what steers a wave.
#include <limits>

#include <fmt/format.h>

#include "events.h"
#include "lanes.h"
#include "queue.h"

namespace sim {

namespace {

u64 read64(const Wave& w, const Operand& o, bool is_signed) {
  return o.kind == Operand::Kind::scalar ? (o.reg == kNull ? 0 : w.pair(o.reg)) : constant64(o, is_signed, false);
}
void write32(Wave& w, const Operand& o, u32 value) {
  if (o.reg != kNull) w.scalar[o.reg] = value;
}

template <class T>
T read(const Wave& w, const Operand& o) {
  if constexpr (sizeof(T) == 8)
    return static_cast<T>(read64(w, o, std::is_signed_v<T>));
  else
    return static_cast<T>(scalar_value(w, o));
}

template <class T>
inline constexpr bool kCondition = std::is_same_v<T, bool&>;

/// D = f(S0, ..., SCC), D = f(S0, ...), or SCC = f(S0, S1) where f gives a bool. `in_place`: D is source 0.
template <class F, bool in_place>
void run_scalar(Wave& w, const Instruction& i) {
  using S = Signature<decltype(&F::operator())>;
  using R = typename S::Result;
  constexpr bool compares = std::is_same_v<R, bool>;
  [&]<std::size_t... k>(std::index_sequence<k...>) {
    const auto argument = [&]<std::size_t n>() -> decltype(auto) {
      using A = std::tuple_element_t<n, typename S::Arguments>;
      if constexpr (kCondition<A>)
        return (w.scc);
      else
        return read<A>(w, i.operands[n + (compares || in_place ? 0 : 1)]);
    };
    const R result = F{}(argument.template operator()<k>()...);
    if constexpr (compares)
      w.scc = result;
    else if constexpr (sizeof(R) == 8)
      w.set_pair(i.operands[0].reg, static_cast<u64>(result));
    else
      write32(w, i.operands[0], static_cast<u32>(result));
  }(std::make_index_sequence<S::kCount>());
}

template <bool in_place = false, class F>
void scalar(Table& t, const std::string& name, F) {
  using S = Signature<decltype(&F::operator())>;
  using R = typename S::Result;
  Operation o{.run = run_scalar<F, in_place>};
  if (!std::is_same_v<R, bool> && !in_place) o.widths.push_back(kRegisters<R>);
  [&]<std::size_t... k>(std::index_sequence<k...>) {
    ((kCondition<std::tuple_element_t<k, typename S::Arguments>> ? void() : o.widths.push_back(kRegisters<std::tuple_element_t<k, typename S::Arguments>>)), ...);
  }(std::make_index_sequence<S::kCount>());
  t.add(name, std::move(o));
}

i32 short_of(u32 value) { return static_cast<i16>(value); }

/// D = EXEC; EXEC = f(S0, EXEC).
template <class F>
void run_save_exec(Wave& w, const Instruction& i) {
  const bool wide = i.operands[0].width == 2;
  const u64 old = wide ? w.pair(kExec) : w.scalar[kExec];
  const u64 source = wide ? read64(w, i.operands[1], false) : scalar_value(w, i.operands[1]);
  const u64 now = F{}(source, old);
  if (wide) {
    w.set_pair(i.operands[0].reg, old);
    w.set_pair(kExec, now);
    w.scc = now != 0;
  } else {
    write32(w, i.operands[0], static_cast<u32>(old));
    w.scalar[kExec] = static_cast<u32>(now);
    w.scc = static_cast<u32>(now) != 0;
  }
}
template <class F>
void save_exec(Table& t, const std::string& name, F) {
  t.add("s_" + name + "_saveexec_b32", {.run = run_save_exec<F>, .widths = {1, 1}});
  t.add("s_" + name + "_saveexec_b64", {.run = run_save_exec<F>, .widths = {2, 2}});
}
/// EXEC = D = f(S0, EXEC).
template <class F>
void run_write_exec(Wave& w, const Instruction& i) {
  const bool wide = i.operands[0].width == 2;
  const u64 now = F{}(wide ? read64(w, i.operands[1], false) : scalar_value(w, i.operands[1]), wide ? w.pair(kExec) : w.scalar[kExec]);
  if (wide)
    w.set_pair(kExec, now), w.set_pair(i.operands[0].reg, now);
  else
    w.scalar[kExec] = static_cast<u32>(now), write32(w, i.operands[0], static_cast<u32>(now));
  w.scc = wide ? now != 0 : static_cast<u32>(now) != 0;
}

template <class F>
void write_exec(Table& t, const std::string& name, F) {
  t.add("s_" + name + "_wrexec_b32", {.run = run_write_exec<F>, .widths = {1, 1}});
  t.add("s_" + name + "_wrexec_b64", {.run = run_write_exec<F>, .widths = {2, 2}});
}

// s_bfe: offset in bits 4:0 (5:0 of 64), width from bit 16.
template <class T>
T bit_field(T value, u32 how, u32 most) {
  const u32 offset = how & (most - 1), width = how >> 16 & 0x7f;
  if (width == 0) return 0;
  using U = std::make_unsigned_t<T>;
  const U shifted = static_cast<U>(value) >> offset;
  if (width >= most - offset) return static_cast<T>(std::is_signed_v<T> ? value >> offset : static_cast<T>(shifted));
  const U cut = static_cast<U>(shifted << (most - width));
  return std::is_signed_v<T> ? static_cast<T>(cut) >> (most - width) : static_cast<T>(cut >> (most - width));
}

template <class T>
void logic(Table& t, const std::string& type) {
  scalar(t, "s_and_" + type, [](T a, T b, bool& c) { const T r = a & b; c = r != 0; return r; });
  scalar(t, "s_or_" + type, [](T a, T b, bool& c) { const T r = a | b; c = r != 0; return r; });
  scalar(t, "s_xor_" + type, [](T a, T b, bool& c) { const T r = a ^ b; c = r != 0; return r; });
  scalar(t, "s_andn2_" + type, [](T a, T b, bool& c) { const T r = a & ~b; c = r != 0; return r; });
  scalar(t, "s_orn2_" + type, [](T a, T b, bool& c) { const T r = a | ~b; c = r != 0; return r; });
  scalar(t, "s_nand_" + type, [](T a, T b, bool& c) { const T r = ~(a & b); c = r != 0; return r; });
  scalar(t, "s_nor_" + type, [](T a, T b, bool& c) { const T r = ~(a | b); c = r != 0; return r; });
  scalar(t, "s_xnor_" + type, [](T a, T b, bool& c) { const T r = ~(a ^ b); c = r != 0; return r; });
  scalar(t, "s_not_" + type, [](T a, bool& c) { const T r = ~a; c = r != 0; return r; });
  scalar(t, "s_mov_" + type, [](T a) { return a; });
  scalar(t, "s_cselect_" + type, [](T a, T b, bool& c) { return c ? a : b; });
  scalar(t, "s_lshl_" + type, [](T a, u32 b, bool& c) { const T r = a << (b & (8 * sizeof(T) - 1)); c = r != 0; return r; });
  scalar(t, "s_lshr_" + type, [](T a, u32 b, bool& c) { const T r = a >> (b & (8 * sizeof(T) - 1)); c = r != 0; return r; });
}

u32 reversed(u32 x) {
  u32 r = 0;
  for (int k = 0; k < 32; ++k) r |= (x >> k & 1) << (31 - k);
  return r;
}

void arithmetic(Table& t) {
  scalar(t, "s_add_u32", [](u32 a, u32 b, bool& c) { c = static_cast<u64>(a) + b > 0xffffffffu; return a + b; });
  scalar(t, "s_sub_u32", [](u32 a, u32 b, bool& c) { c = b > a; return a - b; });
  scalar(t, "s_addc_u32", [](u32 a, u32 b, bool& c) { const u64 r = static_cast<u64>(a) + b + c; c = r > 0xffffffffu; return static_cast<u32>(r); });
  scalar(t, "s_subb_u32", [](u32 a, u32 b, bool& c) { const u32 r = a - b - c; c = static_cast<u64>(b) + c > a; return r; });
  scalar(t, "s_add_i32", [](i32 a, i32 b, bool& c) { i32 r = 0; c = __builtin_add_overflow(a, b, &r); return r; });
  scalar(t, "s_sub_i32", [](i32 a, i32 b, bool& c) { i32 r = 0; c = __builtin_sub_overflow(a, b, &r); return r; });
  scalar(t, "s_mul_i32", [](u32 a, u32 b) { return a * b; });
  scalar(t, "s_mul_hi_u32", [](u32 a, u32 b) { return static_cast<u32>(static_cast<u64>(a) * b >> 32); });
  scalar(t, "s_mul_hi_i32", [](i32 a, i32 b) { return static_cast<i32>(static_cast<i64>(a) * b >> 32); });
  scalar(t, "s_min_u32", [](u32 a, u32 b, bool& c) { c = a <= b; return c ? a : b; });
  scalar(t, "s_max_u32", [](u32 a, u32 b, bool& c) { c = a >= b; return c ? a : b; });
  scalar(t, "s_min_i32", [](i32 a, i32 b, bool& c) { c = a <= b; return c ? a : b; });
  scalar(t, "s_max_i32", [](i32 a, i32 b, bool& c) { c = a >= b; return c ? a : b; });
  scalar(t, "s_ashr_i32", [](i32 a, u32 b, bool& c) { const i32 r = a >> (b & 31); c = r != 0; return r; });
  scalar(t, "s_ashr_i64", [](i64 a, u32 b, bool& c) { const i64 r = a >> (b & 63); c = r != 0; return r; });
  scalar(t, "s_bfe_u32", [](u32 a, u32 b, bool& c) { const u32 r = bit_field(a, b, 32); c = r != 0; return r; });
  scalar(t, "s_bfe_i32", [](i32 a, u32 b, bool& c) { const i32 r = bit_field(a, b, 32); c = r != 0; return r; });
  scalar(t, "s_bfe_u64", [](u64 a, u32 b, bool& c) { const u64 r = bit_field(a, b, 64); c = r != 0; return r; });
  scalar(t, "s_bfe_i64", [](i64 a, u32 b, bool& c) { const i64 r = bit_field(a, b, 64); c = r != 0; return r; });
  scalar(t, "s_bfm_b32", [](u32 a, u32 b) { return ((1u << (a & 31)) - 1) << (b & 31); });
  scalar(t, "s_bfm_b64", [](u32 a, u32 b) { return ((1ull << (a & 63)) - 1) << (b & 63); });
  scalar(t, "s_abs_i32", [](i32 a, bool& c) { const i32 r = a < 0 ? static_cast<i32>(0u - static_cast<u32>(a)) : a; c = r != 0; return r; });
  scalar(t, "s_ff1_i32_b32", [](u32 a) { return a != 0 ? __builtin_ctz(a) : -1; });
  scalar(t, "s_ff1_i32_b64", [](u64 a) { return a != 0 ? __builtin_ctzll(a) : -1; });
  scalar(t, "s_flbit_i32_b32", [](u32 a) { return a != 0 ? __builtin_clz(a) : -1; });
  scalar(t, "s_flbit_i32_b64", [](u64 a) { return a != 0 ? __builtin_clzll(a) : -1; });
  scalar(t, "s_flbit_i32", [](i32 a) { const u32 x = static_cast<u32>(a < 0 ? ~a : a); return x != 0 ? __builtin_clz(x) : -1; });
  scalar(t, "s_bcnt1_i32_b32", [](u32 a, bool& c) { const u32 r = static_cast<u32>(__builtin_popcount(a)); c = r != 0; return r; });
  scalar(t, "s_bcnt1_i32_b64", [](u64 a, bool& c) { const u32 r = static_cast<u32>(__builtin_popcountll(a)); c = r != 0; return r; });
  scalar(t, "s_bcnt0_i32_b32", [](u32 a, bool& c) { const u32 r = 32u - static_cast<u32>(__builtin_popcount(a)); c = r != 0; return r; });
  scalar(t, "s_bcnt0_i32_b64", [](u64 a, bool& c) { const u32 r = 64u - static_cast<u32>(__builtin_popcountll(a)); c = r != 0; return r; });
  scalar(t, "s_brev_b32", [](u32 a) { return reversed(a); });
  scalar(t, "s_brev_b64", [](u64 a) { return static_cast<u64>(reversed(static_cast<u32>(a))) << 32 | reversed(static_cast<u32>(a >> 32)); });
  scalar(t, "s_sext_i32_i16", [](u32 a) { return static_cast<i32>(static_cast<i16>(a)); });
  scalar(t, "s_sext_i32_i8", [](u32 a) { return static_cast<i32>(static_cast<i8>(a)); });
  scalar(t, "s_pack_ll_b32_b16", [](u32 a, u32 b) { return (a & 0xffff) | b << 16; });
  scalar(t, "s_pack_lh_b32_b16", [](u32 a, u32 b) { return (a & 0xffff) | (b & 0xffff0000); });
  scalar(t, "s_pack_hh_b32_b16", [](u32 a, u32 b) { return a >> 16 | (b & 0xffff0000); });
  scalar(t, "s_lshl1_add_u32", [](u32 a, u32 b, bool& c) { const u64 r = (static_cast<u64>(a) << 1) + b; c = r > 0xffffffffu; return static_cast<u32>(r); });
  scalar(t, "s_lshl2_add_u32", [](u32 a, u32 b, bool& c) { const u64 r = (static_cast<u64>(a) << 2) + b; c = r > 0xffffffffu; return static_cast<u32>(r); });
  scalar(t, "s_lshl3_add_u32", [](u32 a, u32 b, bool& c) { const u64 r = (static_cast<u64>(a) << 3) + b; c = r > 0xffffffffu; return static_cast<u32>(r); });
  scalar(t, "s_lshl4_add_u32", [](u32 a, u32 b, bool& c) { const u64 r = (static_cast<u64>(a) << 4) + b; c = r > 0xffffffffu; return static_cast<u32>(r); });
  scalar<true>(t, "s_bitset1_b32", [](u32 d, u32 a) { return d | 1u << (a & 31); });
  scalar<true>(t, "s_bitset0_b32", [](u32 d, u32 a) { return d & ~(1u << (a & 31)); });
  scalar<true>(t, "s_bitset1_b64", [](u64 d, u32 a) { return d | 1ull << (a & 63); });
  scalar<true>(t, "s_bitset0_b64", [](u64 d, u32 a) { return d & ~(1ull << (a & 63)); });
  scalar(t, "s_movk_i32", [](u32 a) { return short_of(a); });
  scalar<true>(t, "s_cmovk_i32", [](u32 d, u32 a, bool& c) { return c ? static_cast<u32>(short_of(a)) : d; });
  scalar<true>(t, "s_cmov_b32", [](u32 d, u32 a, bool& c) { return c ? a : d; });
  scalar<true>(t, "s_cmov_b64", [](u64 d, u64 a, bool& c) { return c ? a : d; });
  scalar<true>(t, "s_addk_i32", [](i32 d, u32 a, bool& c) { i32 r = 0; c = __builtin_add_overflow(d, short_of(a), &r); return r; });
  scalar<true>(t, "s_mulk_i32", [](u32 d, u32 a) { return d * static_cast<u32>(short_of(a)); });
}

template <class T>
T constant_of(u32 k) {
  return std::is_signed_v<T> ? static_cast<T>(static_cast<i16>(k)) : static_cast<T>(k & 0xffff);
}

template <class T>
void compares(Table& t, const std::string& type) {
  scalar(t, "s_cmp_eq_" + type, [](T a, T b) { return a == b; });
  scalar(t, "s_cmp_lg_" + type, [](T a, T b) { return a != b; });
  if constexpr (sizeof(T) == 4) {
    scalar(t, "s_cmp_gt_" + type, [](T a, T b) { return a > b; });
    scalar(t, "s_cmp_ge_" + type, [](T a, T b) { return a >= b; });
    scalar(t, "s_cmp_lt_" + type, [](T a, T b) { return a < b; });
    scalar(t, "s_cmp_le_" + type, [](T a, T b) { return a <= b; });
    // The constant has 16 bits, with the sign of the comparison.
    scalar(t, "s_cmpk_eq_" + type, [](T a, u32 k) { return a == constant_of<T>(k); });
    scalar(t, "s_cmpk_lg_" + type, [](T a, u32 k) { return a != constant_of<T>(k); });
    scalar(t, "s_cmpk_gt_" + type, [](T a, u32 k) { return a > constant_of<T>(k); });
    scalar(t, "s_cmpk_ge_" + type, [](T a, u32 k) { return a >= constant_of<T>(k); });
    scalar(t, "s_cmpk_lt_" + type, [](T a, u32 k) { return a < constant_of<T>(k); });
    scalar(t, "s_cmpk_le_" + type, [](T a, u32 k) { return a <= constant_of<T>(k); });
  }
}

void nothing(Wave&, const Instruction&) {}

// ---- what steers a wave ----

void branch(Wave& w, const Instruction& i) {
  w.jump(w.pc + 4 + static_cast<u64>(static_cast<i64>(static_cast<i16>(i.operands[0].integer)) * 4));
}
template <class Condition>
void branch_if(Wave& w, const Instruction& i) {
  if (Condition{}(w)) branch(w, i);
}

/// hwreg(NAME, offset, width).
struct Field {
  u32 offset = 0, width = 32;
  u32 mask() const { return width >= 32 ? ~0u : (1u << width) - 1; }
};
Field field_of(const Instruction& i) {
  Field f;
  if (i.arguments.size() == 2) f = {i.arguments[0], i.arguments[1]};
  return f;
}

u32 mode_of(const Wave& w) { return w.round_mode | static_cast<u32>(w.denormals_f32) << 4 | static_cast<u32>(w.denormals_wide) << 6; }
void set_mode(Wave& w, u32 mode) {
  w.round_mode = mode & 15;
  w.denormals_f32 = mode >> 4 & 3;
  w.denormals_wide = mode >> 6 & 3;
  if (w.round_mode != 0) stop_at(w, "only rounding to nearest is simulated");
  if (w.denormals_wide != 3) stop_at(w, "denormal numbers of 16 and 64 bits are always kept here");
}

void get_register(Wave& w, const Instruction& i) {
  const Field f = field_of(i);
  u32 value = 0;
  if (i.register_name == "HW_REG_SH_MEM_BASES")
    value = static_cast<u32>(kScratchAperture >> 48 | kLdsAperture >> 48 << 16);
  else if (i.register_name == "HW_REG_MODE")
    value = mode_of(w);
  else if (i.register_name != "HW_REG_HW_ID" && i.register_name != "HW_REG_HW_ID1" && i.register_name != "HW_REG_HW_ID2")
    stop_at(w, "this hardware register is not simulated");
  write32(w, i.operands[0], value >> f.offset & f.mask());
}

void set_register(Wave& w, const Instruction& i) {
  const Field f = field_of(i);
  const u32 value = scalar_value(w, i.operands[1]);
  if (i.register_name.starts_with("HW_REG_FLAT_SCR")) return;  // scratch is found without it
  if (i.register_name != "HW_REG_MODE") stop_at(w, "this hardware register is not simulated");
  const u32 mask = f.mask() << f.offset;
  set_mode(w, (mode_of(w) & ~mask) | (value << f.offset & mask));
}

void read_clock(Wave& w, const Instruction& i) { w.set_pair(i.operands[0].reg, gpu_clock()); }

/// 2 is what __builtin_trap is; the runtime tells the program through its queue.
void trap(Wave& w, const Instruction& i) {
  if (i.operands[0].integer != 2) stop_at(w, "only trap 2 is simulated");
  throw QueueFailure{QueueError::trap};
}

}  // namespace

void add_control(Table& t) {
  for (const char* name : {"s_nop", "s_clause", "s_inst_prefetch", "s_setprio", "s_waitcnt_depctr", "s_code_end", "s_ttracedata", "s_version"})
    t.add(name, {.run = nothing, .widths = {kAny}});
  for (const char* name : {"s_waitcnt", "s_waitcnt_vscnt", "s_waitcnt_vmcnt", "s_waitcnt_expcnt", "s_waitcnt_lgkmcnt", "buffer_gl0_inv", "buffer_gl1_inv",
                           "s_icache_inv", "s_dcache_inv", "s_dcache_wb", "s_gl1_inv", "v_nop"})
    t.add(name, {.run = nothing});
  t.add("s_sleep", {.run = [](Wave& w, const Instruction&) { w.yields = true; }, .widths = {kAny}});
  t.add("s_endpgm", {.run = [](Wave& w, const Instruction&) { w.state = Wave::State::ended; }});
  t.add("s_barrier", {.run = [](Wave& w, const Instruction&) { w.state = Wave::State::barrier; }});
  t.add("s_sendmsg", {.run =
                          [](Wave& w, const Instruction& i) {
                            // The number of an event, from a kernel that has work for the host (printf).
                            if (i.register_name != "MSG_INTERRUPT") stop_at(w, "this message is not simulated");
                            set_event(w.scalar[kM0] & 0xffffff);
                          },
                      .widths = {kAny}});
  t.add("s_branch", {.run = branch, .widths = {kAny}});
  const auto conditional = [&]<class C>(const char* name, C) { t.add(name, {.run = branch_if<C>, .widths = {kAny}}); };
  conditional("s_cbranch_scc0", [](const Wave& w) { return !w.scc; });
  conditional("s_cbranch_scc1", [](const Wave& w) { return w.scc; });
  conditional("s_cbranch_vccz", [](const Wave& w) { return w.mask(kVcc) == 0; });
  conditional("s_cbranch_vccnz", [](const Wave& w) { return w.mask(kVcc) != 0; });
  conditional("s_cbranch_execz", [](const Wave& w) { return w.exec() == 0; });
  conditional("s_cbranch_execnz", [](const Wave& w) { return w.exec() != 0; });
  t.add("s_getpc_b64", {.run = [](Wave& w, const Instruction& i) { w.set_pair(i.operands[0].reg, w.pc + 4); }, .widths = {2}});
  t.add("s_setpc_b64", {.run = [](Wave& w, const Instruction& i) { w.jump(w.pair(i.operands[0].reg)); }, .widths = {2}});
  t.add("s_swappc_b64", {.run =
                             [](Wave& w, const Instruction& i) {
                               const u64 to = w.pair(i.operands[1].reg);
                               w.set_pair(i.operands[0].reg, w.pc + 4);
                               w.jump(to);
                             },
                         .widths = {2, 2}});
  t.add("s_call_b64", {.run =
                           [](Wave& w, const Instruction& i) {
                             w.set_pair(i.operands[0].reg, w.pc + 4);
                             w.jump(w.pc + 4 + static_cast<u64>(static_cast<i64>(static_cast<i16>(i.operands[1].integer)) * 4));
                           },
                       .widths = {2, kAny}});
  t.add("s_getreg_b32", {.run = get_register, .widths = {1, kAny}});
  t.add("s_setreg_b32", {.run = set_register, .widths = {kAny, 1}});
  t.add("s_setreg_imm32_b32", {.run = set_register, .widths = {kAny, 1}});
  t.add("s_round_mode", {.run = [](Wave& w, const Instruction& i) { set_mode(w, (mode_of(w) & ~15u) | (static_cast<u32>(i.operands[0].integer) & 15)); },
                         .widths = {kAny}});
  t.add("s_denorm_mode",
        {.run = [](Wave& w, const Instruction& i) { set_mode(w, (mode_of(w) & 15) | (static_cast<u32>(i.operands[0].integer) & 15) << 4); }, .widths = {kAny}});
  t.add("s_memtime", {.run = read_clock, .widths = {2}});
  t.add("s_memrealtime", {.run = read_clock, .widths = {2}});
  t.add("s_trap", {.run = trap, .widths = {kAny}});
}

void add_scalar(Table& t) {
  logic<u32>(t, "b32");
  logic<u64>(t, "b64");
  arithmetic(t);
  compares<u32>(t, "u32");
  compares<i32>(t, "i32");
  compares<u64>(t, "u64");
  scalar(t, "s_bitcmp0_b32", [](u32 a, u32 b) { return (a >> (b & 31) & 1) == 0; });
  scalar(t, "s_bitcmp1_b32", [](u32 a, u32 b) { return (a >> (b & 31) & 1) != 0; });
  scalar(t, "s_bitcmp0_b64", [](u64 a, u32 b) { return (a >> (b & 63) & 1) == 0; });
  scalar(t, "s_bitcmp1_b64", [](u64 a, u32 b) { return (a >> (b & 63) & 1) != 0; });
  save_exec(t, "and", [](u64 s, u64 e) { return s & e; });
  save_exec(t, "or", [](u64 s, u64 e) { return s | e; });
  save_exec(t, "xor", [](u64 s, u64 e) { return s ^ e; });
  save_exec(t, "andn1", [](u64 s, u64 e) { return ~s & e; });
  save_exec(t, "andn2", [](u64 s, u64 e) { return s & ~e; });
  save_exec(t, "orn1", [](u64 s, u64 e) { return ~s | e; });
  save_exec(t, "orn2", [](u64 s, u64 e) { return s | ~e; });
  write_exec(t, "andn1", [](u64 s, u64 e) { return ~s & e; });
  write_exec(t, "andn2", [](u64 s, u64 e) { return s & ~e; });
}

}  // namespace sim
