// SPDX-License-Identifier: Apache-2.0
// From bytes to an instruction that can run: LLVM's disassembler, the parser, and the table of operations; once for each address.
#include <llvm-c/Disassembler.h>
#include <llvm-c/Target.h>

#include <cstring>
#include <mutex>
#include <unordered_map>

#include <fmt/format.h>

#include "lanes.h"

extern "C" {
void LLVMInitializeAMDGPUTargetInfo(void);
void LLVMInitializeAMDGPUTargetMC(void);
void LLVMInitializeAMDGPUDisassembler(void);
}

namespace sim {
namespace {

constexpr u32 kLongest = 20;  // bytes: a VOP3 with a literal, an image instruction with more addresses

/// Of one width of waves. Instructions stay where they are: waves hold pointers to them.
struct Decoded {
  std::unordered_map<u64, std::unique_ptr<Instruction>> at;
  LLVMDisasmContextRef disassembler = nullptr;
};

struct Decoder {
  std::mutex mutex;
  Decoded wave32, wave64;
  std::vector<std::unique_ptr<Instruction>> forgotten;  // a wave on another queue may still be at one of them
  u32 users = 0;
  u64 generation = 0;  // of the memory that was decoded
};
Decoder& decoder() {
  static Decoder& one = *new Decoder;
  return one;
}

Decoded& of(Decoder& d, u32 lanes) { return lanes == 64 ? d.wave64 : d.wave32; }

LLVMDisasmContextRef disassembler(Decoder& d, u32 lanes) {
  Decoded& decoded = of(d, lanes);
  if (decoded.disassembler != nullptr) return decoded.disassembler;
  static const bool initialized = [] {
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUDisassembler();
    return true;
  }();
  (void)initialized;
  decoded.disassembler = LLVMCreateDisasmCPUFeatures("amdgcn-amd-amdhsa", "gfx1030",
                                                     lanes == 64 ? "-wavefrontsize32,+wavefrontsize64" : "+wavefrontsize32,-wavefrontsize64", nullptr,
                                                     0, nullptr, nullptr);
  if (decoded.disassembler == nullptr) stop("LLVM has no disassembler of gfx1030");
  return decoded.disassembler;
}

u32 disassemble_locked(Decoder& d, const std::byte* bytes, std::size_t size, u32 lanes, std::string& text) {
  char line[512] = "";
  std::byte copy[kLongest] = {};
  std::memcpy(copy, bytes, std::min<std::size_t>(size, kLongest));
  const std::size_t n = LLVMDisasmInstruction(disassembler(d, lanes), reinterpret_cast<u8*>(copy), std::min<std::size_t>(size, kLongest), 0, line, sizeof line);
  text = line;
  return static_cast<u32>(n);
}

}  // namespace

void stop_at(const Wave& wave, const std::string& why) {
  stop(fmt::format("{} at {:#x}: {}", why, wave.pc, wave.now != nullptr ? wave.now->text : "?"));
}

const Table& operations() {
  static const Table& table = *[] {
    auto* t = new Table;
    add_scalar(*t);
    add_control(*t);
    add_vector_integer(*t);
    add_vector_real(*t);
    add_packed(*t);
    add_compares(*t);
    add_masks(*t);
    add_memory(*t);
    add_atomics(*t);
    add_lds(*t);
    return t;
  }();
  return table;
}

std::string bind(Instruction& i, u32 lanes) {
  const auto it = operations().all().find(i.mnemonic);
  if (it == operations().all().end()) return fmt::format("{} is not simulated", i.mnemonic);
  const Operation& op = it->second;
  if (const u32 unknown = i.modifiers & ~op.modifiers; unknown != 0) return fmt::format("{} with these modifiers is not simulated", i.mnemonic);
  const bool any_number = op.widths.size() == 1 && op.widths[0] == kAny;
  if (!any_number && i.operands.size() != op.widths.size())
    return fmt::format("{} takes {} operands, not {}", i.mnemonic, op.widths.size(), i.operands.size());
  for (std::size_t k = 0; k < i.operands.size(); ++k) {
    const Operand& o = i.operands[k];
    if ((o.negate || o.absolute) && (!op.signs || k < i.first_source)) return fmt::format("operand {} of {} has a sign", k, i.mnemonic);
    if (o.sign_extend && !i.has(kSdwa)) return fmt::format("operand {} of {} is sign-extended", k, i.mnemonic);
    if (any_number || op.widths[k] == kAny || !o.is_register() || o.reg == kNull) continue;
    const u8 wanted = op.widths[k] == kMask ? (lanes == 64 ? 2 : 1) : op.widths[k];
    if (o.width != wanted) return fmt::format("operand {} of {} has {} registers, not {}", k, i.mnemonic, o.width, wanted);
    if (op.widths[k] == kMask && o.kind != Operand::Kind::scalar) return fmt::format("operand {} of {} is no mask", k, i.mnemonic);
  }
  if (i.has(kDpp) && i.cross.kind == CrossLane::Kind::none) return "a DPP control that is not known";
  i.run = op.run;
  return {};
}

const Instruction& decode(u64 pc, u32 lanes) {
  Decoder& d = decoder();
  const std::lock_guard lock(d.mutex);
  auto& slot = of(d, lanes).at[pc];
  if (slot != nullptr) return *slot;
  const Memory::Window window = memory().window(pc, 4, false);
  const std::byte* bytes = reinterpret_cast<const std::byte*>(pc) + window.to_host;
  std::string text, why;
  const u32 size = disassemble_locked(d, bytes, std::min<u64>(kLongest, window.high - pc), lanes, text);
  u32 raw = 0;
  std::memcpy(&raw, bytes, 4);
  if (size == 0) stop(fmt::format("{:08x} at {:#x} is no instruction of gfx1030", raw, pc));
  auto instruction = parse(text, why);
  if (!instruction) stop(fmt::format("{} at {:#x}: {}", why, pc, text));
  instruction->size = size;
  instruction->raw = raw;
  if (why = bind(*instruction, lanes); !why.empty()) stop(fmt::format("{} at {:#x}: {}", why, pc, text));
  slot = std::make_unique<Instruction>(std::move(*instruction));
  return *slot;
}

CodeUse::CodeUse() {
  Decoder& d = decoder();
  const std::lock_guard lock(d.mutex);
  if (++d.users == 1) d.forgotten.clear();
  // Other code at an address means that memory was mapped for it since.
  if (d.generation == memory().generation()) return;
  d.generation = memory().generation();
  for (Decoded* decoded : {&d.wave32, &d.wave64}) {
    for (auto& [pc, instruction] : decoded->at) d.forgotten.push_back(std::move(instruction));
    decoded->at.clear();
  }
}

CodeUse::~CodeUse() {
  const std::lock_guard lock(decoder().mutex);
  --decoder().users;
}

void run_slice(Wave& w, u32 most) {
  const Instruction* before = nullptr;
  w.yields = false;
  for (u32 n = 0; n < most && w.state == Wave::State::ready && !w.yields; ++n) {
    const Instruction* now = before != nullptr && !w.jumped ? before->next.load(std::memory_order_relaxed) : nullptr;
    if (now == nullptr) {
      now = &decode(w.pc, w.lanes);
      if (before != nullptr && !w.jumped) before->next.store(now, std::memory_order_relaxed);
    }
    w.now = before = now;
    w.jumped = false;
    if (log_level() >= 2) log(2, "%llx %s", static_cast<unsigned long long>(w.pc), now->text.c_str());
    now->run(w, *now);
    if (!w.jumped) w.pc += now->size;
  }
}

u32 disassemble(const std::byte* bytes, std::size_t size, u32 lanes, std::string& text) {
  Decoder& d = decoder();
  const std::lock_guard lock(d.mutex);
  return disassemble_locked(d, bytes, size, lanes, text);
}

}  // namespace sim
