// SPDX-License-Identifier: Apache-2.0
// Vector comparisons, and instructions that read or write masks of lanes.
#include "lanes.h"

namespace sim {
namespace {

template <class T>
void ordered(Table& t, const std::string& type) {
  t.compare("lt_" + type, [](T a, T b) { return a < b; });
  t.compare("le_" + type, [](T a, T b) { return a <= b; });
  t.compare("gt_" + type, [](T a, T b) { return a > b; });
  t.compare("ge_" + type, [](T a, T b) { return a >= b; });
  t.compare("eq_" + type, [](T a, T b) { return a == b; });
}
template <class T>
void integers(Table& t, const std::string& type) {
  ordered<T>(t, type);
  t.compare("ne_" + type, [](T a, T b) { return a != b; });
}

template <class T>
f64 number(T x) {
  if constexpr (std::is_same_v<T, f16>)
    return from_half(x);
  else
    return x;
}
template <class T>
void reals(Table& t, const std::string& type) {
  t.compare("lt_" + type, [](T a, T b) { return number(a) < number(b); });
  t.compare("le_" + type, [](T a, T b) { return number(a) <= number(b); });
  t.compare("gt_" + type, [](T a, T b) { return number(a) > number(b); });
  t.compare("ge_" + type, [](T a, T b) { return number(a) >= number(b); });
  t.compare("eq_" + type, [](T a, T b) { return number(a) == number(b); });
  t.compare("lg_" + type, [](T a, T b) { return number(a) < number(b) || number(a) > number(b); });
  t.compare("neq_" + type, [](T a, T b) { return !(number(a) == number(b)); });
  t.compare("nlt_" + type, [](T a, T b) { return !(number(a) < number(b)); });
  t.compare("nle_" + type, [](T a, T b) { return !(number(a) <= number(b)); });
  t.compare("ngt_" + type, [](T a, T b) { return !(number(a) > number(b)); });
  t.compare("nge_" + type, [](T a, T b) { return !(number(a) >= number(b)); });
  t.compare("nlg_" + type, [](T a, T b) { return !(number(a) < number(b) || number(a) > number(b)); });
  t.compare("o_" + type, [](T a, T b) { return !std::isnan(number(a)) && !std::isnan(number(b)); });
  t.compare("u_" + type, [](T a, T b) { return std::isnan(number(a)) || std::isnan(number(b)); });
  // The class of S0 is one that S1's bits name.
  t.compare("class_" + type, [](T a, u32 wanted) {
    bool quiet = true, denormal = false;
    if constexpr (std::is_same_v<T, f16>) {
      quiet = (a.bits & 0x200) != 0;
      denormal = (a.bits & 0x7c00) == 0;
    } else if constexpr (sizeof(T) == 4) {
      quiet = (std::bit_cast<u32>(a) >> 22 & 1) != 0;
      denormal = std::fpclassify(a) == FP_SUBNORMAL;
    } else {
      quiet = (std::bit_cast<u64>(a) >> 51 & 1) != 0;
      denormal = std::fpclassify(a) == FP_SUBNORMAL;
    }
    const f64 x = number(a);
    const bool negative = std::signbit(x);
    u32 is = 0;
    if (std::isnan(x))
      is = quiet ? 1u << 1 : 1u << 0;
    else if (std::isinf(x))
      is = negative ? 1u << 2 : 1u << 9;
    else if (x == 0)
      is = negative ? 1u << 5 : 1u << 6;
    else if (denormal)
      is = negative ? 1u << 4 : 1u << 7;
    else
      is = negative ? 1u << 3 : 1u << 8;
    return (is & wanted) != 0;
  });
}

/// D = mask bit ? S1 : S0. Signs are those of a real number's bits.
void select(Wave& w, const Instruction& i) {
  Lanes<f32> a, b;
  const u8 denormals = w.denormals_f32;
  w.denormals_f32 = 3;  // bits are moved, not numbers
  load(w, i, 1, a);
  load(w, i, 2, b);
  w.denormals_f32 = denormals;
  const u64 mask = w.mask(i.operands[3].reg);
  Lanes<u32> out;
  for (u32 l = 0; l < w.lanes; ++l) out[l] = std::bit_cast<u32>((mask >> l & 1) != 0 ? b[l] : a[l]);
  store(w, i, out);
}

void read_first_lane(Wave& w, const Instruction& i) {
  Lanes<u32> a;
  load(w, i, 1, a);
  const u64 exec = w.exec();
  w.scalar[i.operands[0].reg] = a[exec != 0 ? static_cast<std::size_t>(__builtin_ctzll(exec)) : 0];
}
void read_lane(Wave& w, const Instruction& i) {
  w.scalar[i.operands[0].reg] = w.lanes_of(i.operands[1].reg)[scalar_value(w, i.operands[2]) & (w.lanes - 1)];
}
void write_lane(Wave& w, const Instruction& i) {
  w.lanes_of(i.operands[0].reg)[scalar_value(w, i.operands[2]) & (w.lanes - 1)] = scalar_value(w, i.operands[1]);
}

/// S1 + how many bits of S0 are of lanes before this one; of the lower or the upper 32 lanes.
template <bool upper>
void count_before(Wave& w, const Instruction& i) {
  Lanes<u32> mask, add, out;
  load(w, i, 1, mask);
  load(w, i, 2, add);
  for (u32 l = 0; l < w.lanes; ++l) {
    const u32 before = upper ? (l > 32 ? l - 32 : 0) : std::min(l, 32u);
    const u32 below = before >= 32 ? ~0u : (1u << before) - 1;
    out[l] = static_cast<u32>(__builtin_popcount(mask[l] & below)) + add[l];
  }
  store(w, i, out);
}

/// Lanes of rows of 16, picked by 4 bits each of S1 and S2; from the same row or the other one of its pair.
template <bool other_row>
void permute_lanes(Wave& w, const Instruction& i) {
  Lanes<u32> a, out;
  load(w, i, 1, a);
  const u64 select = static_cast<u64>(scalar_value(w, i.operands[3])) << 32 | scalar_value(w, i.operands[2]);
  const u64 exec = w.exec();
  out = a;
  for (u32 l = 0; l < w.lanes; ++l) {
    const u32 from = ((l & ~15u) ^ (other_row ? 16u : 0u)) + static_cast<u32>(select >> 4 * (l & 15) & 15);
    // op_sel's bits are "fetch inactive" and "bound control" here.
    out[l] = (exec >> from & 1) != 0 || (i.op_sel & 1) != 0 ? a[from] : (i.op_sel & 2) != 0 ? 0 : w.lanes_of(i.operands[0].reg)[l];
  }
  for (u32 l = 0; l < w.lanes; ++l)
    if ((exec >> l & 1) != 0) w.lanes_of(i.operands[0].reg)[l] = out[l];
}

}  // namespace

void add_compares(Table& t) {
  integers<u16>(t, "u16");
  integers<i16>(t, "i16");
  integers<u32>(t, "u32");
  integers<i32>(t, "i32");
  integers<u64>(t, "u64");
  integers<i64>(t, "i64");
  reals<f16>(t, "f16");
  reals<f32>(t, "f32");
  reals<f64>(t, "f64");
}

void add_masks(Table& t) {
  t.add("v_cndmask_b32", {.run = select, .widths = {1, 1, 1, kMask}, .modifiers = kSdwa | kDpp, .signs = true});
  t.add("v_readfirstlane_b32", {.run = read_first_lane, .widths = {1, 1}});
  t.add("v_readlane_b32", {.run = read_lane, .widths = {1, 1, 1}});
  t.add("v_writelane_b32", {.run = write_lane, .widths = {1, 1, 1}});
  t.add("v_mbcnt_lo_u32_b32", {.run = count_before<false>, .widths = {1, 1, 1}});
  t.add("v_mbcnt_hi_u32_b32", {.run = count_before<true>, .widths = {1, 1, 1}});
  t.add("v_permlane16_b32", {.run = permute_lanes<false>, .widths = {1, 1, 1, 1}, .modifiers = kOpSel});
  t.add("v_permlanex16_b32", {.run = permute_lanes<true>, .widths = {1, 1, 1, 1}, .modifiers = kOpSel});
}

}  // namespace sim
