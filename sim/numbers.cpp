// SPDX-License-Identifier: Apache-2.0
#include "numbers.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace sim {

f16 to_half(f64 value) {
  const u64 bits = std::bit_cast<u64>(value);
  const u16 sign = static_cast<u16>(bits >> 48 & 0x8000);
  const int exponent = static_cast<int>(bits >> 52 & 0x7ff) - 1023;
  const u64 fraction = bits & 0xfffffffffffffull;
  if (exponent == 1024) return {static_cast<u16>(sign | 0x7c00 | (fraction != 0 ? 0x200 | fraction >> 42 : 0))};
  if (exponent < -25) return {sign};
  // The significand with its hidden bit, shifted until the last kept bit is bit 0; what falls off decides the rounding.
  const int shift = exponent < -14 ? 42 + (-14 - exponent) : 42;
  const u64 significand = fraction | 1ull << 52;
  u64 kept = significand >> shift;
  const u64 lost = significand & ((1ull << shift) - 1), half = 1ull << (shift - 1);
  if (lost > half || (lost == half && (kept & 1) != 0)) ++kept;
  // A carry out of the significand is the next exponent, which is just what adding it up gives.
  const u64 result = exponent < -14 ? kept : (static_cast<u64>(exponent + 14) << 10) + kept;
  return {static_cast<u16>(sign | (result >= 0x7c00 ? 0x7c00 : result))};
}

f64 from_half(f16 value) {
  const int exponent = value.bits >> 10 & 31, fraction = value.bits & 0x3ff;
  f64 magnitude = 0;
  if (exponent == 31)
    magnitude = fraction != 0 ? NAN : INFINITY;
  else if (exponent == 0)
    magnitude = std::ldexp(fraction, -24);
  else
    magnitude = std::ldexp(1024 + fraction, exponent - 25);
  return (value.bits & 0x8000) != 0 ? -magnitude : magnitude;
}

void stop(const std::string& why) {
  std::fprintf(stderr, "simulated GPU: %s\n", why.c_str());
  std::abort();
}

int log_level() {
  static const int level = [] {
    const char* text = std::getenv("KLAB_SIM_LOG");
    return text != nullptr ? std::atoi(text) : 0;
  }();
  return level;
}

void log(int level, const char* format, ...) {
  if (log_level() < level) return;
  std::va_list arguments;
  va_start(arguments, format);
  char line[512];
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  std::fprintf(stderr, "[sim] %s\n", line);
}

}  // namespace sim
