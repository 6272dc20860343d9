// SPDX-License-Identifier: Apache-2.0
// Numbers as the hardware has them: fixed widths, IEEE half precision, and how the simulator stops on what it does not know.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>

namespace sim {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using i8 = std::int8_t;
using i16 = std::int16_t;
using i32 = std::int32_t;
using i64 = std::int64_t;
using f32 = float;
using f64 = double;

/// IEEE binary16, in its bits.
struct f16 {
  u16 bits = 0;
};
/// Two of them in a register: packed instructions.
struct f16x2 {
  f16 lo, hi;
};
struct u16x2 {
  u16 lo = 0, hi = 0;
};

/// Rounded to the nearest, ties to even; from double, so that one rounding is all there is.
f16 to_half(f64 value);
f64 from_half(f16 value);

/// The last words of a simulation: it never goes on with a guess.
[[noreturn]] void stop(const std::string& why);

/// KLAB_SIM_LOG: 1 queues, packets and memory; 2 every instruction of every wave.
int log_level();
void log(int level, const char* format, ...) __attribute__((format(printf, 2, 3)));

}  // namespace sim
