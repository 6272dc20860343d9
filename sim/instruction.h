// SPDX-License-Identifier: Apache-2.0
// One decoded instruction: LLVM's text, taken apart strictly. What is not understood whole is no instruction.
#pragma once
#include <array>
#include <atomic>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wave.h"

namespace sim {

struct Operand {
  enum class Kind : u8 { off, scalar, vector, integer, real, scc, shared_base, private_base };
  Kind kind = Kind::off;
  u16 reg = 0;
  u8 width = 1;          // registers
  bool literal = false;  // a 32-bit constant of the encoding, not an inline one
  bool negate = false, absolute = false, sign_extend = false;
  u64 integer = 0;  // sign-extended, as written
  f64 real = 0;
  bool is_register() const { return kind == Kind::scalar || kind == Kind::vector; }
};

/// Parts of a register (SDWA).
enum class Part : u8 { dword, byte0, byte1, byte2, byte3, word0, word1 };

/// Another lane's value for source 0 (DPP).
struct CrossLane {
  enum class Kind : u8 { none, quad_perm, row_shl, row_shr, row_ror, row_mirror, row_half_mirror, row_share, row_xmask, dpp8 };
  Kind kind = Kind::none;
  std::array<u8, 8> select{};
  u8 row_mask = 15, bank_mask = 15;
  bool bound_control = false;   // a lane that is not there reads as 0; else the destination stays
  bool fetch_inactive = false;
};

enum Modifier : u32 {
  kOffset = 1 << 0, kOffsets = 1 << 1, kGlc = 1 << 2, kSlc = 1 << 3, kDlc = 1 << 4, kOffen = 1 << 5, kClamp = 1 << 6, kScale = 1 << 7, kSdwa = 1 << 8,
  kDpp = 1 << 9, kOpSel = 1 << 10, kOpSelHi = 1 << 11, kNegLo = 1 << 12, kNegHi = 1 << 13, kGds = 1 << 14, kSwizzle = 1 << 15,
};

using Handler = void (*)(Wave&, const Instruction&);

struct Instruction {
  std::string text, mnemonic;
  u32 size = 4, raw = 0;
  u32 modifiers = 0;  // those that are written
  u8 first_source = 1;  // the operand that is source 0: after the destination and a carry, or the first (v_cmpx)
  std::vector<Operand> operands;
  i64 offset = 0, offset1 = 0;
  u8 scale = 0;  // omod: 1 *2, 2 *4, 3 /2
  std::array<Part, 3> part{};  // destination, source 0, source 1
  enum class Unused : u8 { pad, sign, preserve } unused = Unused::pad;
  CrossLane cross;
  u8 op_sel = 0, op_sel_hi = 0xff, neg_lo = 0, neg_hi = 0;  // a bit for each operand, source 0 first; op_sel: destination last
  std::vector<u32> arguments;  // of hwreg(), sendmsg(), s_waitcnt: numbers in the order in which they stand
  std::string register_name;   // HW_REG_MODE

  Handler run = nullptr;
  struct Link : std::atomic<const Instruction*> {  // copied only before it is set
    Link() : std::atomic<const Instruction*>(nullptr) {}
    Link(const Link&) : Link() {}
    Link& operator=(const Link&) { return *this; }
  };
  mutable Link next;  // the one that lies after it, once known

  bool has(Modifier m) const { return (modifiers & m) != 0; }
};

/// `text` as LLVM's AMDGPU printer writes it. Empty: `why` says what is not understood.
std::optional<Instruction> parse(std::string_view text, std::string& why);

/// What a handler takes.
struct Operation {
  Handler run = nullptr;
  /// Registers of each operand; 0: one or two (a lane mask), kAny: whatever is written.
  std::vector<u8> widths;
  u32 modifiers = 0;           // that it knows
  bool signs = false;          // negate and absolute on sources
  bool integer_clamp = false;
};
inline constexpr u8 kMask = 0, kAny = 255;

/// Sets `run`, or says why it may not run as it is written.
std::string bind(Instruction& instruction, u32 lanes);

/// The instruction at `pc` of a wave of so many lanes, decoded once. Stops on what is not understood.
const Instruction& decode(u64 pc, u32 lanes);
/// While a kernel runs: instructions stay where they are. What was decoded before memory changed is decoded anew.
struct CodeUse {
  CodeUse();
  ~CodeUse();
};
/// Up to so many instructions, until the wave ends, waits or sleeps. Throws MemoryFault, QueueFailure.
void run_slice(Wave& wave, u32 most);
/// LLVM's text of the instruction that these bytes begin with; its length, 0 when there is none.
u32 disassemble(const std::byte* bytes, std::size_t size, u32 lanes, std::string& text);

}  // namespace sim
