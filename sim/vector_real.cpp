// SPDX-License-Identifier: Apache-2.0
// Vector instructions on real numbers of 16, 32 and 64 bits, and conversions.
// The host's functions stand for the approximations of the hardware (reciprocals, roots, exponentials, sines): their last bits may differ.
#include <algorithm>
#include <limits>

#include "lanes.h"

namespace sim {
namespace {

template <class T>
int exponent_of(T x) {
  if constexpr (sizeof(T) == 4)
    return static_cast<int>(std::bit_cast<u32>(x) >> 23 & 0xff);
  else
    return static_cast<int>(std::bit_cast<u64>(x) >> 52 & 0x7ff);
}
template <class T>
bool denormal(T x) {
  return std::fpclassify(x) == FP_SUBNORMAL;
}
/// IEEE minimum: a number if there is one, and -0 is below +0.
template <class T>
T lesser(T a, T b) {
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}
template <class T>
T greater(T a, T b) {
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}
template <class T>
T median(T a, T b, T c) {
  if (std::isnan(a) || std::isnan(b) || std::isnan(c)) return lesser(lesser(a, b), c);
  return greater(lesser(greater(a, b), c), lesser(a, b));
}

/// What a division needs to be exact: its scaling, its last step, and its special cases (the ISA's v_div_scale, v_div_fmas, v_div_fixup).
template <class T>
struct Division {
  static constexpr int kScale = sizeof(T) == 4 ? 64 : 128, kFar = sizeof(T) == 4 ? 96 : 768, kTiny = sizeof(T) == 4 ? 23 : 53;
  static constexpr int kBias = sizeof(T) == 4 ? 127 : 1023, kUnderflow = sizeof(T) == 4 ? -150 : -1075;

  static T scale(T value, T denominator, T numerator, bool& rescale) {
    rescale = false;
    const bool is_denominator = std::bit_cast<std::conditional_t<sizeof(T) == 4, u32, u64>>(value) ==
                                std::bit_cast<std::conditional_t<sizeof(T) == 4, u32, u64>>(denominator);
    const bool is_numerator = std::bit_cast<std::conditional_t<sizeof(T) == 4, u32, u64>>(value) ==
                              std::bit_cast<std::conditional_t<sizeof(T) == 4, u32, u64>>(numerator);
    if (numerator == 0 || denominator == 0) return std::numeric_limits<T>::quiet_NaN();
    if (exponent_of(numerator) - exponent_of(denominator) >= kFar) {
      rescale = true;
      return is_denominator ? std::ldexp(value, kScale) : value;
    }
    if (denormal(denominator)) return std::ldexp(value, kScale);
    const bool small_reciprocal = denormal(T(1) / denominator), small_quotient = denormal(numerator / denominator);
    if (small_reciprocal && small_quotient) {
      rescale = true;
      return is_denominator ? std::ldexp(value, kScale) : value;
    }
    if (small_reciprocal) return std::ldexp(value, -kScale);
    if (small_quotient) {
      rescale = true;
      return is_numerator ? std::ldexp(value, kScale) : value;
    }
    if (exponent_of(numerator) <= kTiny) return std::ldexp(value, kScale);
    return value;
  }

  static T last(T a, T b, T c, bool rescale) {
    const T r = std::fma(a, b, c);
    return rescale ? std::ldexp(r, exponent_of(c) > kBias ? kScale : -kScale) : r;
  }

  static T fixup(T quotient, T denominator, T numerator) {
    const bool negative = std::signbit(denominator) != std::signbit(numerator);
    const auto with_sign = [&](T magnitude) { return negative ? -magnitude : magnitude; };
    if (std::isnan(numerator)) return numerator;
    if (std::isnan(denominator)) return denominator;
    if ((denominator == 0 && numerator == 0) || (std::isinf(denominator) && std::isinf(numerator)))
      return -std::numeric_limits<T>::quiet_NaN();
    if (denominator == 0 || std::isinf(numerator)) return with_sign(std::numeric_limits<T>::infinity());
    if (std::isinf(denominator) || numerator == 0) return with_sign(0);
    if (exponent_of(numerator) - exponent_of(denominator) < kUnderflow) return with_sign(0);
    // Steps in between went beyond what the type has: so does the quotient.
    if (std::isnan(quotient)) return with_sign(std::numeric_limits<T>::infinity());
    return with_sign(std::fabs(quotient));
  }
};

template <class T>
void run_division_scale(Wave& w, const Instruction& i) {
  Lanes<T> value, denominator, numerator, out;
  load(w, i, 2, value);
  load(w, i, 3, denominator);
  load(w, i, 4, numerator);
  const u64 lanes = w.exec();
  u64 rescale = 0;
  for (u32 l = 0; l < w.lanes; ++l) {
    bool again = false;
    out[l] = Division<T>::scale(value[l], denominator[l], numerator[l], again);
    if (again && (lanes >> l & 1) != 0) rescale |= 1ull << l;
  }
  store(w, i, out);
  w.set_mask(i.operands[1].reg, rescale);
}

template <class T>
void run_division_last(Wave& w, const Instruction& i) {
  Lanes<T> a, b, c, out;
  load(w, i, 1, a);
  load(w, i, 2, b);
  load(w, i, 3, c);
  const u64 rescale = w.mask(kVcc);
  for (u32 l = 0; l < w.lanes; ++l) out[l] = Division<T>::last(a[l], b[l], c[l], (rescale >> l & 1) != 0);
  store(w, i, out);
}

template <class T, int kWidth = sizeof(T) / 4>
void division(Table& t, const std::string& type) {
  constexpr u8 n = kWidth;
  t.add("v_div_scale_" + type, {.run = run_division_scale<T>, .widths = {n, kMask, n, n, n}, .signs = true});
  t.add("v_div_fmas_" + type, {.run = run_division_last<T>, .widths = {n, n, n, n}, .modifiers = kClamp | kScale, .signs = true});
  t.lanes("v_div_fixup_" + type, [](T a, T b, T c) { return Division<T>::fixup(a, b, c); });
}

/// The nearest that the type has; what is no number becomes 0.
template <class To, class From>
To saturated(From x) {
  if (std::isnan(x)) return 0;
  constexpr f64 low = std::numeric_limits<To>::min(), high = std::numeric_limits<To>::max();
  const f64 wide = std::trunc(static_cast<f64>(x));
  return wide <= low ? std::numeric_limits<To>::min() : wide >= high ? std::numeric_limits<To>::max() : static_cast<To>(wide);
}

f64 wide(f16 x) { return from_half(x); }

f32 fraction_of(f32 x) { return std::min(x - std::floor(x), std::bit_cast<f32>(0x3f7fffffu)); }

template <class T>
void both_widths(Table& t, const std::string& type) {
  t.lanes("v_add_" + type, [](T a, T b) { return a + b; });
  t.lanes("v_mul_" + type, [](T a, T b) { return a * b; });
  t.lanes("v_fma_" + type, [](T a, T b, T c) { return std::fma(a, b, c); });
  t.lanes("v_min_" + type, [](T a, T b) { return lesser(a, b); });
  t.lanes("v_max_" + type, [](T a, T b) { return greater(a, b); });
  t.lanes("v_rcp_" + type, [](T a) { return T(1) / a; });
  t.lanes("v_sqrt_" + type, [](T a) { return std::sqrt(a); });
  t.lanes("v_rsq_" + type, [](T a) { return T(1) / std::sqrt(a); });
  t.lanes("v_floor_" + type, [](T a) { return std::floor(a); });
  t.lanes("v_ceil_" + type, [](T a) { return std::ceil(a); });
  t.lanes("v_trunc_" + type, [](T a) { return std::trunc(a); });
  t.lanes("v_rndne_" + type, [](T a) { return std::nearbyint(a); });
  t.lanes("v_ldexp_" + type, [](T a, i32 b) { return std::ldexp(a, b); });
  t.lanes("v_frexp_exp_i32_" + type, [](T a) { return std::isfinite(a) && a != 0 ? static_cast<i32>(std::ilogb(a)) + 1 : 0; });
  t.lanes("v_frexp_mant_" + type, [](T a) {
    int e = 0;
    return std::isfinite(a) ? std::frexp(a, &e) : a;
  });
  division<T>(t, type);
}

void single(Table& t) {
  t.lanes("v_sub_f32", [](f32 a, f32 b) { return a - b; });
  t.lanes("v_subrev_f32", [](f32 a, f32 b) { return b - a; });
  t.lanes("v_mul_legacy_f32", [](f32 a, f32 b) { return a == 0 || b == 0 ? 0.0f : a * b; });
  t.lanes<true>("v_fmac_f32", [](f32 a, f32 b, f32 d) { return std::fma(a, b, d); });
  t.lanes("v_fmaak_f32", [](f32 a, f32 b, f32 c) { return std::fma(a, b, c); });
  t.lanes("v_fmamk_f32", [](f32 a, f32 b, f32 c) { return std::fma(a, b, c); });
  t.lanes("v_med3_f32", [](f32 a, f32 b, f32 c) { return median(a, b, c); });
  t.lanes("v_min3_f32", [](f32 a, f32 b, f32 c) { return lesser(lesser(a, b), c); });
  t.lanes("v_max3_f32", [](f32 a, f32 b, f32 c) { return greater(greater(a, b), c); });
  t.lanes("v_rcp_iflag_f32", [](f32 a) { return 1.0f / a; });
  t.lanes("v_exp_f32", [](f32 a) { return std::exp2(a); });
  t.lanes("v_log_f32", [](f32 a) { return std::log2(a); });
  t.lanes("v_fract_f32", [](f32 a) { return fraction_of(a); });
  // In revolutions.
  t.lanes("v_sin_f32", [](f32 a) { return static_cast<f32>(std::sin(6.283185307179586 * static_cast<f64>(a))); });
  t.lanes("v_cos_f32", [](f32 a) { return static_cast<f32>(std::cos(6.283185307179586 * static_cast<f64>(a))); });
}

void half(Table& t) {
  t.lanes("v_add_f16", [](f16 a, f16 b) { return to_half(wide(a) + wide(b)); });
  t.lanes("v_sub_f16", [](f16 a, f16 b) { return to_half(wide(a) - wide(b)); });
  t.lanes("v_subrev_f16", [](f16 a, f16 b) { return to_half(wide(b) - wide(a)); });
  t.lanes("v_mul_f16", [](f16 a, f16 b) { return to_half(wide(a) * wide(b)); });
  t.lanes("v_fma_f16", [](f16 a, f16 b, f16 c) { return to_half(std::fma(wide(a), wide(b), wide(c))); });
  t.lanes<true>("v_fmac_f16", [](f16 a, f16 b, f16 c) { return to_half(std::fma(wide(a), wide(b), wide(c))); });
  t.lanes("v_min_f16", [](f16 a, f16 b) { return to_half(lesser(wide(a), wide(b))); });
  t.lanes("v_max_f16", [](f16 a, f16 b) { return to_half(greater(wide(a), wide(b))); });
  t.lanes("v_med3_f16", [](f16 a, f16 b, f16 c) { return to_half(median(wide(a), wide(b), wide(c))); });
  t.lanes("v_rcp_f16", [](f16 a) { return to_half(1 / wide(a)); });
  t.lanes("v_sqrt_f16", [](f16 a) { return to_half(std::sqrt(wide(a))); });
  t.lanes("v_rsq_f16", [](f16 a) { return to_half(1 / std::sqrt(wide(a))); });
  t.lanes("v_exp_f16", [](f16 a) { return to_half(std::exp2(wide(a))); });
  t.lanes("v_log_f16", [](f16 a) { return to_half(std::log2(wide(a))); });
  t.lanes("v_floor_f16", [](f16 a) { return to_half(std::floor(wide(a))); });
  t.lanes("v_ceil_f16", [](f16 a) { return to_half(std::ceil(wide(a))); });
  t.lanes("v_trunc_f16", [](f16 a) { return to_half(std::trunc(wide(a))); });
  t.lanes("v_rndne_f16", [](f16 a) { return to_half(std::nearbyint(wide(a))); });
  t.lanes("v_div_fixup_f16", [](f16 quotient, f16 denominator, f16 numerator) {
    return to_half(Division<f64>::fixup(wide(quotient), wide(denominator), wide(numerator)));
  });
}

void conversions(Table& t) {
  t.lanes("v_cvt_f32_i32", [](i32 a) { return static_cast<f32>(a); });
  t.lanes("v_cvt_f32_u32", [](u32 a) { return static_cast<f32>(a); });
  t.lanes("v_cvt_i32_f32", [](f32 a) { return saturated<i32>(a); });
  t.lanes("v_cvt_u32_f32", [](f32 a) { return saturated<u32>(a); });
  t.lanes("v_cvt_rpi_i32_f32", [](f32 a) { return saturated<i32>(std::floor(a + 0.5)); });
  t.lanes("v_cvt_flr_i32_f32", [](f32 a) { return saturated<i32>(std::floor(static_cast<f64>(a))); });
  t.lanes("v_cvt_f64_i32", [](i32 a) { return static_cast<f64>(a); });
  t.lanes("v_cvt_f64_u32", [](u32 a) { return static_cast<f64>(a); });
  t.lanes("v_cvt_i32_f64", [](f64 a) { return saturated<i32>(a); });
  t.lanes("v_cvt_u32_f64", [](f64 a) { return saturated<u32>(a); });
  t.lanes("v_cvt_f64_f32", [](f32 a) { return static_cast<f64>(a); });
  t.lanes("v_cvt_f32_f64", [](f64 a) { return static_cast<f32>(a); });
  t.lanes("v_cvt_f32_f16", [](f16 a) { return static_cast<f32>(wide(a)); });
  t.lanes("v_cvt_f16_f32", [](f32 a) { return to_half(a); });
  t.lanes("v_cvt_f16_u16", [](u16 a) { return to_half(a); });
  t.lanes("v_cvt_f16_i16", [](i16 a) { return to_half(a); });
  t.lanes("v_cvt_u16_f16", [](f16 a) { return saturated<u16>(wide(a)); });
  t.lanes("v_cvt_i16_f16", [](f16 a) { return saturated<i16>(wide(a)); });
  t.lanes("v_cvt_f32_ubyte0", [](u32 a) { return static_cast<f32>(a & 255); });
  t.lanes("v_cvt_f32_ubyte1", [](u32 a) { return static_cast<f32>(a >> 8 & 255); });
  t.lanes("v_cvt_f32_ubyte2", [](u32 a) { return static_cast<f32>(a >> 16 & 255); });
  t.lanes("v_cvt_f32_ubyte3", [](u32 a) { return static_cast<f32>(a >> 24); });
}

}  // namespace

void add_vector_real(Table& t) {
  both_widths<f32>(t, "f32");
  both_widths<f64>(t, "f64");
  single(t);
  half(t);
  conversions(t);
}

void add_packed(Table& t) {
  const auto each = []<class F>(Table& table, const char* name, F) {
    table.lanes(name, [](f16x2 a, f16x2 b) { return f16x2{F{}(a.lo, b.lo), F{}(a.hi, b.hi)}; });
  };
  each(t, "v_pk_add_f16", [](f16 a, f16 b) { return to_half(wide(a) + wide(b)); });
  each(t, "v_pk_mul_f16", [](f16 a, f16 b) { return to_half(wide(a) * wide(b)); });
  each(t, "v_pk_min_f16", [](f16 a, f16 b) { return to_half(lesser(wide(a), wide(b))); });
  each(t, "v_pk_max_f16", [](f16 a, f16 b) { return to_half(greater(wide(a), wide(b))); });
  t.lanes("v_pk_fma_f16", [](f16x2 a, f16x2 b, f16x2 c) {
    return f16x2{to_half(std::fma(wide(a.lo), wide(b.lo), wide(c.lo))), to_half(std::fma(wide(a.hi), wide(b.hi), wide(c.hi)))};
  });
  const auto integers = []<class F>(Table& table, const char* name, F) {
    table.lanes(name, [](u16x2 a, u16x2 b) { return u16x2{static_cast<u16>(F{}(a.lo, b.lo)), static_cast<u16>(F{}(a.hi, b.hi))}; });
  };
  integers(t, "v_pk_add_u16", [](u16 a, u16 b) { return a + b; });
  integers(t, "v_pk_sub_u16", [](u16 a, u16 b) { return a - b; });
  integers(t, "v_pk_mul_lo_u16", [](u16 a, u16 b) { return a * b; });
  integers(t, "v_pk_min_u16", [](u16 a, u16 b) { return std::min(a, b); });
  integers(t, "v_pk_max_u16", [](u16 a, u16 b) { return std::max(a, b); });
  integers(t, "v_pk_lshlrev_b16", [](u16 a, u16 b) { return b << (a & 15); });
  integers(t, "v_pk_lshrrev_b16", [](u16 a, u16 b) { return b >> (a & 15); });
  t.lanes("v_pack_b32_f16", [](u32 a, u32 b) { return (a & 0xffff) | b << 16; });
}

}  // namespace sim
