// SPDX-License-Identifier: Apache-2.0
// Vector instructions on integers of 16, 32 and 64 bits, and on bits.
#include "lanes.h"

namespace sim {
namespace {

i32 signed24(u32 x) { return static_cast<i32>(x << 8) >> 8; }
u32 low24(u32 x) { return x & 0xffffff; }
i32 low_signed(i64 x) { return static_cast<i32>(x); }

i32 saturate(i64 x) { return x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : static_cast<i32>(x); }

template <class T>
T median(T a, T b, T c) {
  const T low = a < b ? a : b, high = a < b ? b : a;
  return c < low ? low : c > high ? high : c;
}

/// Integer arithmetic that saturates when asked to.
template <class F, class Clamped>
void run_clamped(Wave& w, const Instruction& i) {
  i.has(kClamp) ? run_lanes<Clamped, false>(w, i) : run_lanes<F, false>(w, i);
}
template <class F, class Clamped>
void clamped(Table& t, const std::string& name, F, Clamped) {
  t.add(name, {.run = run_clamped<F, Clamped>, .widths = {1, 1, 1}, .modifiers = kSdwa | kDpp | kClamp, .integer_clamp = true});
}

/// D, carry out = S0 op S1 (op carry in): a 33rd bit of each lane.
template <class F, bool takes_carry>
void run_carry(Wave& w, const Instruction& i) {
  Lanes<u32> a, b, out;
  load(w, i, 2, a);
  load(w, i, 3, b);
  const u64 carries = takes_carry ? w.mask(i.operands[4].reg) : 0, lanes = written_lanes(w, i);
  u64 result = 0;
  for (u32 l = 0; l < w.lanes; ++l) {
    const u64 wide = F{}(static_cast<u64>(a[l]), static_cast<u64>(b[l]), carries >> l & 1);
    out[l] = static_cast<u32>(wide);
    if ((lanes >> l & 1) != 0 && wide >> 32 != 0) result |= 1ull << l;
  }
  store(w, i, out);
  w.set_mask(i.operands[1].reg, result);
}
template <class F>
void carry(Table& t, const std::string& name, F) {
  t.add("v_" + name + "_co_u32", {.run = run_carry<F, false>, .widths = {1, kMask, 1, 1}, .modifiers = kSdwa | kDpp});
  t.add("v_" + name + "_co_ci_u32", {.run = run_carry<F, true>, .widths = {1, kMask, 1, 1, kMask}, .modifiers = kSdwa | kDpp});
}

/// 64-bit D, carry out = S0 * S1 + S2.
template <class T>
void run_wide_multiply(Wave& w, const Instruction& i) {
  Lanes<T> a, b;
  Lanes<u64> c, out;
  load(w, i, 2, a);
  load(w, i, 3, b);
  load(w, i, 4, c);
  u64 result = 0;
  for (u32 l = 0; l < w.lanes; ++l) {
    using Wide = std::conditional_t<std::is_signed_v<T>, i64, u64>;
    const u64 product = static_cast<u64>(static_cast<Wide>(a[l]) * static_cast<Wide>(b[l]));
    out[l] = product + c[l];
    if (out[l] < product && (w.exec() >> l & 1) != 0) result |= 1ull << l;
  }
  store(w, i, out);
  w.set_mask(i.operands[1].reg, result);
}

void arithmetic(Table& t) {
  clamped(t, "v_add_nc_u32", [](u32 a, u32 b) { return a + b; }, [](u32 a, u32 b) { return a + b < a ? ~0u : a + b; });
  clamped(t, "v_sub_nc_u32", [](u32 a, u32 b) { return a - b; }, [](u32 a, u32 b) { return a > b ? a - b : 0u; });
  clamped(t, "v_subrev_nc_u32", [](u32 a, u32 b) { return b - a; }, [](u32 a, u32 b) { return b > a ? b - a : 0u; });
  clamped(t, "v_add_nc_i32", [](i32 a, i32 b) { return low_signed(static_cast<i64>(a) + b); }, [](i32 a, i32 b) { return saturate(static_cast<i64>(a) + b); });
  clamped(t, "v_sub_nc_i32", [](i32 a, i32 b) { return low_signed(static_cast<i64>(a) - b); }, [](i32 a, i32 b) { return saturate(static_cast<i64>(a) - b); });
  carry(t, "add", [](u64 a, u64 b, u64 c) { return a + b + c; });
  carry(t, "sub", [](u64 a, u64 b, u64 c) { return a - b - c; });
  carry(t, "subrev", [](u64 a, u64 b, u64 c) { return b - a - c; });
  t.add("v_mad_u64_u32", {.run = run_wide_multiply<u32>, .widths = {2, kMask, 1, 1, 2}});
  t.add("v_mad_i64_i32", {.run = run_wide_multiply<i32>, .widths = {2, kMask, 1, 1, 2}});
  t.lanes("v_add3_u32", [](u32 a, u32 b, u32 c) { return a + b + c; });
  t.lanes("v_mul_lo_u32", [](u32 a, u32 b) { return a * b; });
  t.lanes("v_mul_hi_u32", [](u32 a, u32 b) { return static_cast<u32>(static_cast<u64>(a) * b >> 32); });
  t.lanes("v_mul_hi_i32", [](i32 a, i32 b) { return low_signed(static_cast<i64>(a) * b >> 32); });
  t.lanes("v_mul_u32_u24", [](u32 a, u32 b) { return low24(a) * low24(b); });
  t.lanes("v_mul_hi_u32_u24", [](u32 a, u32 b) { return static_cast<u32>(static_cast<u64>(low24(a)) * low24(b) >> 32); });
  t.lanes("v_mul_i32_i24", [](u32 a, u32 b) { return static_cast<u32>(static_cast<i64>(signed24(a)) * signed24(b)); });
  t.lanes("v_mul_hi_i32_i24", [](u32 a, u32 b) { return static_cast<u32>(static_cast<i64>(signed24(a)) * signed24(b) >> 32); });
  t.lanes("v_mad_u32_u24", [](u32 a, u32 b, u32 c) { return low24(a) * low24(b) + c; });
  t.lanes("v_mad_i32_i24", [](u32 a, u32 b, u32 c) { return static_cast<u32>(static_cast<i64>(signed24(a)) * signed24(b)) + c; });
  t.lanes("v_min_u32", [](u32 a, u32 b) { return a < b ? a : b; });
  t.lanes("v_max_u32", [](u32 a, u32 b) { return a > b ? a : b; });
  t.lanes("v_min_i32", [](i32 a, i32 b) { return a < b ? a : b; });
  t.lanes("v_max_i32", [](i32 a, i32 b) { return a > b ? a : b; });
  t.lanes("v_min3_u32", [](u32 a, u32 b, u32 c) { return std::min(std::min(a, b), c); });
  t.lanes("v_max3_u32", [](u32 a, u32 b, u32 c) { return std::max(std::max(a, b), c); });
  t.lanes("v_min3_i32", [](i32 a, i32 b, i32 c) { return std::min(std::min(a, b), c); });
  t.lanes("v_max3_i32", [](i32 a, i32 b, i32 c) { return std::max(std::max(a, b), c); });
  t.lanes("v_med3_u32", [](u32 a, u32 b, u32 c) { return median(a, b, c); });
  t.lanes("v_med3_i32", [](i32 a, i32 b, i32 c) { return median(a, b, c); });
  t.lanes("v_sad_u8", [](u32 a, u32 b, u32 c) {
    u32 sum = c;
    for (int k = 0; k < 32; k += 8) {
      const int x = static_cast<int>(a >> k & 255), y = static_cast<int>(b >> k & 255);
      sum += static_cast<u32>(x > y ? x - y : y - x);
    }
    return sum;
  });
}

void bits(Table& t) {
  t.lanes("v_mov_b32", [](u32 a) { return a; });
  t.lanes("v_and_b32", [](u32 a, u32 b) { return a & b; });
  t.lanes("v_or_b32", [](u32 a, u32 b) { return a | b; });
  t.lanes("v_xor_b32", [](u32 a, u32 b) { return a ^ b; });
  t.lanes("v_xnor_b32", [](u32 a, u32 b) { return ~(a ^ b); });
  t.lanes("v_not_b32", [](u32 a) { return ~a; });
  t.lanes("v_or3_b32", [](u32 a, u32 b, u32 c) { return a | b | c; });
  t.lanes("v_and_or_b32", [](u32 a, u32 b, u32 c) { return (a & b) | c; });
  t.lanes("v_xor3_b32", [](u32 a, u32 b, u32 c) { return a ^ b ^ c; });
  t.lanes("v_xad_u32", [](u32 a, u32 b, u32 c) { return (a ^ b) + c; });
  t.lanes("v_bfi_b32", [](u32 a, u32 b, u32 c) { return (a & b) | (~a & c); });
  t.lanes("v_bfe_u32", [](u32 a, u32 b, u32 c) { return a >> (b & 31) & ((1u << (c & 31)) - 1); });
  t.lanes("v_bfe_i32", [](i32 a, u32 b, u32 c) {
    const u32 offset = b & 31, width = c & 31;
    if (width == 0) return 0;
    if (offset + width >= 32) return a >> offset;
    return static_cast<i32>(static_cast<u32>(a) << (32 - offset - width)) >> (32 - width);
  });
  t.lanes("v_bfm_b32", [](u32 a, u32 b) { return ((1u << (a & 31)) - 1) << (b & 31); });
  t.lanes("v_lshlrev_b32", [](u32 a, u32 b) { return b << (a & 31); });
  t.lanes("v_lshrrev_b32", [](u32 a, u32 b) { return b >> (a & 31); });
  t.lanes("v_ashrrev_i32", [](u32 a, i32 b) { return b >> (a & 31); });
  t.lanes("v_lshlrev_b64", [](u32 a, u64 b) { return b << (a & 63); });
  t.lanes("v_lshrrev_b64", [](u32 a, u64 b) { return b >> (a & 63); });
  t.lanes("v_ashrrev_i64", [](u32 a, i64 b) { return b >> (a & 63); });
  t.lanes("v_lshl_add_u32", [](u32 a, u32 b, u32 c) { return (a << (b & 31)) + c; });
  t.lanes("v_add_lshl_u32", [](u32 a, u32 b, u32 c) { return (a + b) << (c & 31); });
  t.lanes("v_lshl_or_b32", [](u32 a, u32 b, u32 c) { return (a << (b & 31)) | c; });
  t.lanes("v_alignbit_b32", [](u32 a, u32 b, u32 c) { return static_cast<u32>((static_cast<u64>(a) << 32 | b) >> (c & 31)); });
  t.lanes("v_alignbyte_b32", [](u32 a, u32 b, u32 c) { return static_cast<u32>((static_cast<u64>(a) << 32 | b) >> 8 * (c & 3)); });
  t.lanes("v_bcnt_u32_b32", [](u32 a, u32 b) { return static_cast<u32>(__builtin_popcount(a)) + b; });
  t.lanes("v_ffbh_u32", [](u32 a) { return a != 0 ? __builtin_clz(a) : -1; });
  t.lanes("v_ffbh_i32", [](i32 a) {
    const u32 x = static_cast<u32>(a < 0 ? ~a : a);
    return x != 0 ? __builtin_clz(x) : -1;
  });
  t.lanes("v_ffbl_b32", [](u32 a) { return a != 0 ? __builtin_ctz(a) : -1; });
  t.lanes("v_bfrev_b32", [](u32 a) {
    u32 r = 0;
    for (int k = 0; k < 32; ++k) r |= (a >> k & 1) << (31 - k);
    return r;
  });
  t.lanes("v_perm_b32", [](u32 a, u32 b, u32 select) {
    // Bytes 0 to 3 of S1 and 4 to 7 of S0; 8 to 11 are signs of words, 12 is 0, above 0xff.
    const u64 all = static_cast<u64>(a) << 32 | b;
    u32 r = 0;
    for (u32 k = 0; k < 4; ++k) {
      const u32 s = select >> 8 * k & 255;
      u32 byte = 0xff;
      if (s < 8)
        byte = static_cast<u32>(all >> 8 * s & 255);
      else if (s < 12)
        byte = (all >> (16 * (s - 8) + 15) & 1) != 0 ? 0xff : 0;
      else if (s == 12)
        byte = 0;
      r |= byte << 8 * k;
    }
    return r;
  });
}

void sixteen_bits(Table& t) {
  t.lanes("v_add_nc_u16", [](u16 a, u16 b) { return static_cast<u16>(a + b); });
  t.lanes("v_sub_nc_u16", [](u16 a, u16 b) { return static_cast<u16>(a - b); });
  t.lanes("v_mul_lo_u16", [](u16 a, u16 b) { return static_cast<u16>(a * b); });
  t.lanes("v_mad_u16", [](u16 a, u16 b, u16 c) { return static_cast<u16>(a * b + c); });
  t.lanes("v_mad_i16", [](i16 a, i16 b, i16 c) { return static_cast<i16>(a * b + c); });
  t.lanes("v_min_u16", [](u16 a, u16 b) { return std::min(a, b); });
  t.lanes("v_max_u16", [](u16 a, u16 b) { return std::max(a, b); });
  t.lanes("v_min_i16", [](i16 a, i16 b) { return std::min(a, b); });
  t.lanes("v_max_i16", [](i16 a, i16 b) { return std::max(a, b); });
  t.lanes("v_lshlrev_b16", [](u16 a, u16 b) { return static_cast<u16>(b << (a & 15)); });
  t.lanes("v_lshrrev_b16", [](u16 a, u16 b) { return static_cast<u16>(b >> (a & 15)); });
  t.lanes("v_ashrrev_i16", [](u16 a, i16 b) { return static_cast<i16>(b >> (a & 15)); });
}

}  // namespace

void add_vector_integer(Table& t) {
  arithmetic(t);
  bits(t);
  sixteen_bits(t);
}

}  // namespace sim
