// SPDX-License-Identifier: Apache-2.0
// The lines are those of the CUDA Binary Utilities manual:
//         /*0010*/              @!P0 FFMA R5, R2, c[0x0][0x160], R5 ;     /* 0x... */
// Opcode names: its "Instruction Set Reference".
#include "compile/cubin/sass.h"

#include <algorithm>
#include <array>

namespace klab::compile {
namespace {

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

std::string_view trimmed(std::string_view text) {
  const auto space = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && space(text.front())) text.remove_prefix(1);
  while (!text.empty() && space(text.back())) text.remove_suffix(1);
  return text;
}

// The function that a line begins, or nothing.
std::string_view function_of(std::string_view line) {
  if (const std::size_t at = line.find("Function : "); at != std::string_view::npos)
    return trimmed(line.substr(at + 11));
  static constexpr std::string_view kText = ".text.";
  const bool heading = line.starts_with("//-") || trimmed(line).starts_with(".section");
  const std::size_t at = line.find(kText);
  if (!heading || at == std::string_view::npos) return {};
  const std::string_view rest = line.substr(at + kText.size());
  return rest.substr(0, rest.find_first_of(" \t,"));
}

// "HMMA.16816.F32" of a line that has an instruction, or nothing.
std::string_view instruction_of(std::string_view line) {
  line = trimmed(line);
  if (!line.starts_with("/*")) return {};
  const std::size_t end = line.find("*/");
  if (end == std::string_view::npos || end < 4 || end > 10) return {};
  for (std::size_t i = 2; i < end; ++i)
    if (!is_hex(line[i])) return {};  // an encoding is "/* 0x... */"
  line = trimmed(line.substr(end + 2));
  while (!line.empty() && (line.front() == '{' || line.front() == ' '))
    line.remove_prefix(1);  // paired issue
  if (line.starts_with("@")) {
    const std::size_t space = line.find_first_of(" \t");
    if (space == std::string_view::npos) return {};
    line = trimmed(line.substr(space));
  }
  const std::size_t stop = line.find_first_of(" \t;");
  if (stop == std::string_view::npos || line.find(';') == std::string_view::npos) return {};
  line = line.substr(0, stop);
  return !line.empty() && line[0] >= 'A' && line[0] <= 'Z' ? line : std::string_view();
}

struct Group {
  std::string_view prefix, name;
};
// The first that fits counts.
constexpr Group kGroups[] = {
    {"HFMA2", "fp16"},        {"HADD2", "fp16"},        {"HMUL2", "fp16"},        {"HSET", "fp16"},
    {"HMNMX", "fp16"},        {"FFMA", "fp32"},         {"FADD", "fp32"},         {"FMUL", "fp32"},
    {"FMNMX", "fp32"},        {"FSEL", "fp32"},         {"FSET", "fp32"},         {"FCHK", "fp32"},
    {"FSWZADD", "fp32"},      {"MUFU", "special"},      {"DFMA", "fp64"},         {"DADD", "fp64"},
    {"LDGDEPBAR", "barrier"}, {"DMUL", "fp64"},         {"DSET", "fp64"},         {"LDGSTS", "async_copy"},
    {"UTMA", "async_copy"},   {"UBLK", "async_copy"},   {"LDG", "global_load"},   {"STG", "global_store"},
    {"LDSM", "shared_load"},  {"LDS", "shared_load"},   {"STSM", "shared_store"}, {"STS", "shared_store"},
    {"LDL", "local_load"},    {"STL", "local_store"},   {"LDC", "constant_load"}, {"ULDC", "constant_load"},
    {"LD", "generic_load"},   {"ST", "generic_store"},  {"ATOM", "atomic"},       {"RED", "atomic"},
    {"TEX", "texture"},       {"TLD", "texture"},       {"TXQ", "texture"},       {"SULD", "texture"},
    {"SUST", "texture"},      {"BAR", "barrier"},       {"WARPSYNC", "barrier"},  {"SYNCS", "barrier"},
    {"UCGABAR", "barrier"},   {"DEPBAR", "barrier"},    {"MEMBAR", "barrier"},    {"ERRBAR", "barrier"},
    {"BRA", "control"},       {"BRX", "control"},       {"JM", "control"},        {"CALL", "control"},
    {"RET", "control"},       {"EXIT", "control"},      {"BSSY", "control"},      {"BSYNC", "control"},
    {"BREAK", "control"},     {"NANOSLEEP", "control"}, {"SHFL", "shuffle"},      {"VOTE", "shuffle"},
    {"MATCH", "shuffle"},     {"REDUX", "shuffle"},     {"F2", "conversion"},     {"I2", "conversion"},
    {"FRND", "conversion"},   {"IMAD", "integer"},      {"IADD", "integer"},      {"LEA", "integer"},
    {"LOP", "integer"},       {"SHF", "integer"},       {"ISETP", "integer"},     {"IMNMX", "integer"},
    {"IABS", "integer"},      {"IDP", "integer"},       {"POPC", "integer"},      {"FLO", "integer"},
    {"BMSK", "integer"},      {"SGXT", "integer"},      {"BREV", "integer"},      {"VIADD", "integer"},
    {"VIMNMX", "integer"},    {"IMUL", "integer"},      {"UI", "uniform"},        {"UL", "uniform"},
    {"US", "uniform"},        {"UMOV", "uniform"},      {"UP", "uniform"},        {"R2UR", "uniform"},
    {"MOV", "move"},          {"SEL", "move"},          {"PRMT", "move"},         {"S2", "move"},
    {"CS2R", "move"},         {"PLOP", "move"},         {"P2R", "move"},          {"R2P", "move"},
};

std::string_view group_of(std::string_view opcode) {
  if (is_matrix_opcode(opcode)) return "matrix";
  for (const Group& g : kGroups)
    if (opcode.starts_with(g.prefix)) return g.name;
  return "other";
}

}  // namespace

bool is_matrix_opcode(std::string_view opcode) {
  // Before and on Ampere xMMA, on Hopper xGMMA (warpgroups), on Blackwell UTCxMMA; the letter is the input's
  // kind.
  if (opcode.starts_with("UTC")) return opcode.find("MMA") != std::string_view::npos;
  static constexpr std::array<std::string_view, 11> kNames{"HMMA",  "IMMA",  "DMMA",  "BMMA",  "QMMA", "OMMA",
                                                           "HGMMA", "IGMMA", "QGMMA", "BGMMA", "FMMA"};
  return std::find(kNames.begin(), kNames.end(), opcode) != kNames.end();
}

std::map<std::string, InstructionMix> count_instructions(std::string_view text) {
  std::map<std::string, InstructionMix> mixes;
  InstructionMix* current = nullptr;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (const std::string_view name = function_of(line); !name.empty()) {
      current = &mixes[std::string(name)];
      continue;
    }
    const std::string_view instruction = instruction_of(line);
    if (current == nullptr || instruction.empty()) continue;
    const std::string_view opcode = instruction.substr(0, instruction.find('.'));
    if (opcode == "NOP") continue;
    ++current->total;
    ++current->opcodes[std::string(opcode)];
    ++current->groups[std::string(group_of(opcode))];
    if (is_matrix_opcode(opcode)) ++current->matrix[std::string(instruction)];
  }
  return mixes;
}

}  // namespace klab::compile
