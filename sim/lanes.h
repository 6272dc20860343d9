// SPDX-License-Identifier: Apache-2.0
// Vector instructions from functions of one lane: operands are read as the function's parameters are typed, with the modifiers
// of the encoding, and what it returns is written where the execution mask allows.
#pragma once
#include <array>
#include <cstring>
#include <map>
#include <tuple>
#include <type_traits>

#include "instruction.h"

namespace sim {

template <class T>
using Lanes = std::array<T, kMostLanes>;

/// Constants of the encoding as a register of their type would hold them.
u32 constant32(const Wave& w, const Operand& o);
/// 32 bits of a scalar register or a constant.
u32 scalar_value(const Wave& w, const Operand& o);
u64 constant64(const Operand& o, bool is_signed, bool is_real);
u16 constant16(const Operand& o);

/// Source `n` (an index of operands), 32 bits of each lane; another lane's where it is source 0 of a DPP instruction, a part
/// of it with SDWA.
void fetch(Wave& w, const Instruction& i, std::size_t n, Lanes<u32>& out);
/// Lanes that are written: the execution mask, less what DPP leaves out.
u64 written_lanes(const Wave& w, const Instruction& i);
/// Where a lane's source 0 comes from with DPP; -1: from nowhere.
int source_lane(const CrossLane& c, u32 lane, u64 exec);
u32 part_of(u32 value, Part part, bool sign_extend);
u32 merged(u32 old, u32 value, Part part, Instruction::Unused unused);

f32 flushed(f32 value, bool keep);
f32 scaled(f32 value, const Instruction& i);
f64 scaled(f64 value, const Instruction& i);

/// Which source an operand is: which bit of op_sel and which SDWA part is its own.
inline std::size_t source_of(const Instruction& i, std::size_t operand) { return operand < i.first_source ? 0 : operand - i.first_source; }

// ---- reading ----

template <class T>
void load(Wave& w, const Instruction& i, std::size_t n, Lanes<T>& out) {
  const Operand& o = i.operands[n];
  if constexpr (sizeof(T) == 8) {
    if (o.kind == Operand::Kind::vector) {
      const u32 *low = w.lanes_of(o.reg), *high = w.lanes_of(o.reg + 1);
      for (u32 l = 0; l < w.lanes; ++l) out[l] = std::bit_cast<T>(low[l] | static_cast<u64>(high[l]) << 32);
    } else {
      const u64 value = o.kind == Operand::Kind::scalar ? (o.reg == kNull ? 0 : w.pair(o.reg))
                                                        : constant64(o, std::is_signed_v<T>, std::is_floating_point_v<T>);
      out.fill(std::bit_cast<T>(value));
    }
    if constexpr (std::is_floating_point_v<T>) {
      for (u32 l = 0; l < w.lanes; ++l) {
        if (o.absolute) out[l] = std::fabs(out[l]);
        if (o.negate) out[l] = -out[l];
      }
    }
  } else if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, u16> || std::is_same_v<T, i16>) {
    Lanes<u32> raw;
    if (o.is_register()) {
      fetch(w, i, n, raw);
      if ((i.op_sel >> source_of(i, n) & 1) != 0 && i.has(kOpSel))
        for (u32 l = 0; l < w.lanes; ++l) raw[l] >>= 16;
    } else {
      raw.fill(constant16(o));
    }
    for (u32 l = 0; l < w.lanes; ++l) {
      u16 bits = static_cast<u16>(raw[l]);
      if constexpr (std::is_same_v<T, f16>) {
        if (o.absolute) bits &= 0x7fff;
        if (o.negate) bits ^= 0x8000;
        out[l] = {bits};
      } else {
        out[l] = static_cast<T>(bits);
      }
    }
  } else {
    Lanes<u32> raw;
    fetch(w, i, n, raw);
    for (u32 l = 0; l < w.lanes; ++l) {
      out[l] = std::bit_cast<T>(raw[l]);
      if constexpr (std::is_floating_point_v<T>) {
        out[l] = flushed(out[l], (w.denormals_f32 & 1) != 0);
        if (o.absolute) out[l] = std::fabs(out[l]);
        if (o.negate) out[l] = -out[l];
      }
    }
  }
}

/// Both halves, as op_sel, op_sel_hi, neg_lo and neg_hi pick and turn them.
template <>
inline void load(Wave& w, const Instruction& i, std::size_t n, Lanes<f16x2>& out) {
  const Operand& o = i.operands[n];
  const std::size_t s = source_of(i, n);
  Lanes<u32> raw;
  if (o.is_register())
    fetch(w, i, n, raw);
  else
    raw.fill(o.literal ? static_cast<u32>(o.integer) : constant16(o));
  for (u32 l = 0; l < w.lanes; ++l) {
    const auto half = [&](u8 select, u8 negate) {
      return f16{static_cast<u16>((raw[l] >> ((select >> s & 1) != 0 ? 16 : 0)) ^ ((negate >> s & 1) != 0 ? 0x8000 : 0))};
    };
    out[l] = {half(i.op_sel, i.neg_lo), half(i.op_sel_hi, i.neg_hi)};
  }
}
template <>
inline void load(Wave& w, const Instruction& i, std::size_t n, Lanes<u16x2>& out) {
  Lanes<f16x2> halves;
  load(w, i, n, halves);
  for (u32 l = 0; l < w.lanes; ++l) out[l] = {halves[l].lo.bits, halves[l].hi.bits};
}

// ---- writing ----

template <class T>
void store(Wave& w, const Instruction& i, const Lanes<T>& values) {
  const Operand& o = i.operands[0];
  const u64 mask = written_lanes(w, i);
  u32* to = w.lanes_of(o.reg);
  for (u32 l = 0; l < w.lanes; ++l) {
    if ((mask >> l & 1) == 0) continue;
    if constexpr (sizeof(T) == 8) {
      u64 bits = 0;
      if constexpr (std::is_same_v<T, f64>)
        bits = std::bit_cast<u64>(scaled(values[l], i));
      else
        bits = std::bit_cast<u64>(values[l]);
      to[l] = static_cast<u32>(bits);
      w.lanes_of(o.reg + 1)[l] = static_cast<u32>(bits >> 32);
    } else if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, u16> || std::is_same_v<T, i16>) {
      u16 bits = 0;
      if constexpr (std::is_same_v<T, f16>)
        bits = i.has(kClamp) || i.has(kScale) ? to_half(scaled(from_half(values[l]), i)).bits : values[l].bits;
      else
        bits = static_cast<u16>(values[l]);
      // The other half stays, on this generation.
      if (i.has(kSdwa))
        to[l] = merged(to[l], bits, i.part[0], i.unused);
      else if (i.has(kOpSel) && (i.op_sel >> (i.operands.size() - 1) & 1) != 0)
        to[l] = (to[l] & 0xffff) | static_cast<u32>(bits) << 16;
      else
        to[l] = (to[l] & 0xffff0000) | bits;
    } else if constexpr (std::is_same_v<T, f16x2>) {
      to[l] = values[l].lo.bits | static_cast<u32>(values[l].hi.bits) << 16;
    } else if constexpr (std::is_same_v<T, u16x2>) {
      to[l] = values[l].lo | static_cast<u32>(values[l].hi) << 16;
    } else {
      u32 bits = 0;
      if constexpr (std::is_same_v<T, f32>)
        bits = std::bit_cast<u32>(flushed(scaled(values[l], i), (w.denormals_f32 & 2) != 0));
      else
        bits = static_cast<u32>(values[l]);
      to[l] = i.has(kSdwa) ? merged(to[l], bits, i.part[0], i.unused) : bits;
    }
  }
}

// ---- handlers from functions ----

template <class T>
inline constexpr u8 kRegisters = sizeof(T) == 8 ? 2 : 1;
template <class T>
inline constexpr bool kReal = std::is_floating_point_v<T> || std::is_same_v<T, f16>;

template <class F>
struct Signature;
template <class C, class R, class... A>
struct Signature<R (C::*)(A...) const> {
  using Result = R;
  using Arguments = std::tuple<A...>;
  static constexpr std::size_t kCount = sizeof...(A);
};

/// D = f(S0, S1, ...). With `accumulates` f's last argument is D.
template <class F, bool accumulates>
void run_lanes(Wave& w, const Instruction& i) {
  using S = Signature<decltype(&F::operator())>;
  [&]<std::size_t... k>(std::index_sequence<k...>) {
    std::tuple<Lanes<std::tuple_element_t<k, typename S::Arguments>>...> in;
    (load(w, i, accumulates && k + 1 == S::kCount ? 0 : k + 1, std::get<k>(in)), ...);
    Lanes<typename S::Result> out;
    for (u32 l = 0; l < w.lanes; ++l) out[l] = F{}(std::get<k>(in)[l]...);
    store(w, i, out);
  }(std::make_index_sequence<S::kCount>());
}

/// A mask of the lanes for which f(S0, S1) holds; to a scalar register, or to the execution mask (v_cmpx).
template <class F, bool to_exec>
void run_compare(Wave& w, const Instruction& i) {
  using S = Signature<decltype(&F::operator())>;
  Lanes<std::tuple_element_t<0, typename S::Arguments>> a;
  Lanes<std::tuple_element_t<1, typename S::Arguments>> b;
  load(w, i, i.first_source, a);
  load(w, i, i.first_source + 1u, b);
  const u64 lanes = written_lanes(w, i);
  u64 result = 0;
  for (u32 l = 0; l < w.lanes; ++l)
    if ((lanes >> l & 1) != 0 && F{}(a[l], b[l])) result |= 1ull << l;
  to_exec ? w.set_exec(result) : w.set_mask(i.operands[0].reg, result);
}

/// Registers operations under their mnemonics; each file of instructions has one function that fills it.
class Table {
 public:
  void add(const std::string& name, Operation operation) {
    if (!all_.emplace(name, std::move(operation)).second) stop("two handlers of " + name);
  }
  const std::map<std::string, Operation>& all() const { return all_; }

  template <bool accumulates = false, class F>
  void lanes(const std::string& name, F) {
    using S = Signature<decltype(&F::operator())>;
    Operation o{.run = run_lanes<F, accumulates>, .widths = {kRegisters<typename S::Result>}};
    [&]<std::size_t... k>(std::index_sequence<k...>) {
      (o.widths.push_back(kRegisters<std::tuple_element_t<k, typename S::Arguments>>), ...);
      o.signs = (kReal<std::tuple_element_t<k, typename S::Arguments>> || ...);
    }(std::make_index_sequence<S::kCount>());
    if (accumulates) o.widths.pop_back();
    if (kReal<typename S::Result>) o.modifiers |= kClamp | kScale;
    if constexpr (sizeof(typename S::Result) == 2) o.modifiers |= kOpSel;
    if constexpr (sizeof(typename S::Result) <= 4) o.modifiers |= kSdwa | kDpp;
    if constexpr (std::is_same_v<typename S::Result, f16x2> || std::is_same_v<typename S::Result, u16x2>)
      o.modifiers = kOpSel | kOpSelHi | kNegLo | kNegHi;
    add(name, std::move(o));
  }
  template <class F>
  void compare(const std::string& name_after_v_cmp, F) {
    using S = Signature<decltype(&F::operator())>;
    using T = std::tuple_element_t<0, typename S::Arguments>;
    using U = std::tuple_element_t<1, typename S::Arguments>;
    Operation o{.run = run_compare<F, false>, .widths = {kMask, kRegisters<T>, kRegisters<U>}, .modifiers = kSdwa | kDpp, .signs = kReal<T>};
    add("v_cmp_" + name_after_v_cmp, o);
    o.run = run_compare<F, true>;
    o.widths.erase(o.widths.begin());
    add("v_cmpx_" + name_after_v_cmp, o);
  }

 private:
  std::map<std::string, Operation> all_;
};

/// Every operation that is simulated.
const Table& operations();

void add_scalar(Table&);
void add_control(Table&);
void add_vector_integer(Table&);
void add_vector_real(Table&);
void add_packed(Table&);
void add_compares(Table&);
void add_masks(Table&);
void add_memory(Table&);
void add_atomics(Table&);
void add_lds(Table&);

}  // namespace sim
