// SPDX-License-Identifier: Apache-2.0
#include "lanes.h"

#include <algorithm>

namespace sim {

u32 constant32(const Wave& w, const Operand& o) {
  switch (o.kind) {
    case Operand::Kind::integer: return static_cast<u32>(o.integer);
    case Operand::Kind::real: return std::bit_cast<u32>(static_cast<f32>(o.real));
    case Operand::Kind::scc: return w.scc ? 1 : 0;
    default: stop_at(w, "an operand that has no 32-bit value");
  }
}

u32 scalar_value(const Wave& w, const Operand& o) {
  return o.kind == Operand::Kind::scalar ? (o.reg == kNull ? 0 : w.scalar[o.reg]) : constant32(w, o);
}

u64 constant64(const Operand& o, bool is_signed, bool is_real) {
  switch (o.kind) {
    case Operand::Kind::integer:
      if (!o.literal) return o.integer;
      if (is_real) return (o.integer & 0xffffffff) << 32;  // a literal is the upper half of a double
      return is_signed ? static_cast<u64>(static_cast<i64>(static_cast<i32>(o.integer))) : o.integer & 0xffffffff;
    case Operand::Kind::real: return std::bit_cast<u64>(o.real);
    case Operand::Kind::shared_base: return kLdsAperture;
    case Operand::Kind::private_base: return kScratchAperture;
    default: return 0;
  }
}

u16 constant16(const Operand& o) {
  // An inline 1.0 is a half of that value for whatever reads 16 bits.
  return o.kind == Operand::Kind::real ? to_half(o.real).bits : static_cast<u16>(o.integer);
}

int source_lane(const CrossLane& c, u32 lane, u64 exec) {
  using Kind = CrossLane::Kind;
  const int l = static_cast<int>(lane), row = l & ~15, place = l & 15, n = c.select[0];
  int from = -1;
  switch (c.kind) {
    case Kind::none: return l;
    case Kind::quad_perm: from = (l & ~3) + c.select[static_cast<std::size_t>(l & 3)]; break;
    case Kind::row_shl: from = place + n < 16 ? l + n : -1; break;
    case Kind::row_shr: from = place - n >= 0 ? l - n : -1; break;
    case Kind::row_ror: from = row + ((place - n) & 15); break;
    case Kind::row_mirror: from = row + 15 - place; break;
    case Kind::row_half_mirror: from = (l & ~7) + 7 - (l & 7); break;
    case Kind::row_share: from = row + n; break;
    case Kind::row_xmask: from = row + (place ^ n); break;
    case Kind::dpp8: from = (l & ~7) + c.select[static_cast<std::size_t>(l & 7)]; break;
  }
  return from >= 0 && (c.fetch_inactive || (exec >> from & 1) != 0) ? from : -1;
}

u64 written_lanes(const Wave& w, const Instruction& i) {
  const u64 exec = w.exec();
  const CrossLane& c = i.cross;
  if (c.kind == CrossLane::Kind::none) return exec;
  u64 lanes = 0;
  for (u32 l = 0; l < w.lanes; ++l) {
    if ((exec >> l & 1) == 0 || (c.row_mask >> (l / 16) & 1) == 0 || (c.bank_mask >> (l % 16 / 4) & 1) == 0) continue;
    if (!c.bound_control && source_lane(c, l, exec) < 0) continue;
    lanes |= 1ull << l;
  }
  return lanes;
}

u32 part_of(u32 value, Part part, bool sign_extend) {
  switch (part) {
    case Part::dword: return value;
    case Part::word0:
    case Part::word1: {
      const u16 half = static_cast<u16>(part == Part::word1 ? value >> 16 : value);
      return sign_extend ? static_cast<u32>(static_cast<i32>(static_cast<i16>(half))) : half;
    }
    default: {
      const u8 byte = static_cast<u8>(value >> 8 * (static_cast<u32>(part) - static_cast<u32>(Part::byte0)));
      return sign_extend ? static_cast<u32>(static_cast<i32>(static_cast<i8>(byte))) : byte;
    }
  }
}

u32 merged(u32 old, u32 value, Part part, Instruction::Unused unused) {
  if (part == Part::dword) return value;
  const bool word = part == Part::word0 || part == Part::word1;
  const u32 shift = word ? (part == Part::word1 ? 16 : 0) : 8 * (static_cast<u32>(part) - static_cast<u32>(Part::byte0));
  const u32 ones = word ? 0xffff : 0xff, field = ones << shift;
  const u32 placed = (value & ones) << shift;
  if (unused == Instruction::Unused::preserve) return (old & ~field) | placed;
  // The sign goes into all that lies above.
  if (unused == Instruction::Unused::sign && (value & (ones / 2 + 1)) != 0) return placed | ~(field | (field - 1));
  return placed;
}

void fetch(Wave& w, const Instruction& i, std::size_t n, Lanes<u32>& out) {
  const Operand& o = i.operands[n];
  if (o.kind == Operand::Kind::vector) {
    std::memcpy(out.data(), w.lanes_of(o.reg), w.lanes * sizeof(u32));
  } else {
    out.fill(scalar_value(w, o));
  }
  // DPP is of source 0, SDWA of sources 0 and 1.
  if (n < i.first_source) return;
  const std::size_t source = n - i.first_source;
  if (i.cross.kind != CrossLane::Kind::none && source == 0) {
    const Lanes<u32> from = out;
    const u64 exec = w.exec();
    for (u32 l = 0; l < w.lanes; ++l) {
      const int s = source_lane(i.cross, l, exec);
      out[l] = s >= 0 ? from[static_cast<std::size_t>(s)] : 0;
    }
  }
  if (i.has(kSdwa) && source < 2)
    for (u32 l = 0; l < w.lanes; ++l) out[l] = part_of(out[l], i.part[1 + source], o.sign_extend);
}

f32 flushed(f32 value, bool keep) { return !keep && std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value; }

f32 scaled(f32 value, const Instruction& i) {
  if (i.scale != 0) value *= i.scale == 1 ? 2.0f : i.scale == 2 ? 4.0f : 0.5f;
  if (i.has(kClamp)) value = value > 0 ? std::min(value, 1.0f) : 0.0f;  // what is no number becomes 0
  return value;
}

f64 scaled(f64 value, const Instruction& i) {
  if (i.scale != 0) value *= i.scale == 1 ? 2.0 : i.scale == 2 ? 4.0 : 0.5;
  if (i.has(kClamp)) value = value > 0 ? std::min(value, 1.0) : 0.0;
  return value;
}

}  // namespace sim
