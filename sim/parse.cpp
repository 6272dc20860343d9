// SPDX-License-Identifier: Apache-2.0
// Takes an instruction's text apart: mnemonic, operands between commas, modifiers after them.
#include <charconv>
#include <map>

#include <fmt/format.h>

#include "instruction.h"

namespace sim {
namespace {

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t' || s.back() == '\n')) s.remove_suffix(1);
  return s;
}

bool take_prefix(std::string_view& s, std::string_view prefix) {
  if (!s.starts_with(prefix)) return false;
  s.remove_prefix(prefix.size());
  return true;
}

std::optional<i64> number(std::string_view s) {
  const bool negative = take_prefix(s, "-");
  const int base = take_prefix(s, "0x") ? 16 : 10;
  u64 value = 0;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), value, base);
  if (error != std::errc() || end != s.data() + s.size() || s.empty()) return std::nullopt;
  return negative ? -static_cast<i64>(value) : static_cast<i64>(value);
}

/// Parts at `separator`, none inside brackets.
std::vector<std::string_view> split(std::string_view s, char separator) {
  std::vector<std::string_view> parts;
  int depth = 0;
  std::size_t from = 0;
  for (std::size_t i = 0; i <= s.size(); ++i) {
    if (i < s.size() && (s[i] == '[' || s[i] == '(')) ++depth;
    if (i < s.size() && (s[i] == ']' || s[i] == ')')) --depth;
    if (i < s.size() && (s[i] != separator || depth != 0)) continue;
    if (const auto part = trimmed(s.substr(from, i - from)); !part.empty()) parts.push_back(part);
    from = i + 1;
  }
  return parts;
}

std::optional<std::vector<i64>> list(std::string_view s) {
  if (!take_prefix(s, "[") || !s.ends_with("]")) return std::nullopt;
  s.remove_suffix(1);
  std::vector<i64> values;
  for (const auto part : split(s, ',')) {
    const auto value = number(part);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return values;
}

std::optional<Operand> register_operand(std::string_view s) {
  struct Named {
    u16 reg;
    u8 width;
  };
  static const std::map<std::string_view, Named> kNamed = {
      {"vcc", {kVcc, 2}},   {"vcc_lo", {kVcc, 1}},   {"vcc_hi", {kVcc + 1, 1}},   {"exec", {kExec, 2}},
      {"exec_lo", {kExec, 1}}, {"exec_hi", {kExec + 1, 1}}, {"m0", {kM0, 1}}, {"null", {kNull, 1}}};
  Operand o{.kind = Operand::Kind::scalar};
  if (const auto it = kNamed.find(s); it != kNamed.end()) {
    o.reg = it->second.reg;
    o.width = it->second.width;
    return o;
  }
  u16 first = 0, most = 106;
  if (take_prefix(s, "ttmp")) {
    first = 108;
    most = 16;
  } else if (take_prefix(s, "v")) {
    o.kind = Operand::Kind::vector;
    most = kVectorRegisters;
  } else if (!take_prefix(s, "s")) {
    return std::nullopt;
  }
  i64 low = 0, high = 0;
  if (take_prefix(s, "[")) {
    if (!s.ends_with("]")) return std::nullopt;
    s.remove_suffix(1);
    const auto colon = s.find(':');
    const auto a = number(s.substr(0, colon)), b = colon == s.npos ? a : number(s.substr(colon + 1));
    if (!a || !b) return std::nullopt;
    low = *a, high = *b;
  } else {
    const auto a = number(s);
    if (!a) return std::nullopt;
    low = high = *a;
  }
  if (low < 0 || high < low || high >= most) return std::nullopt;
  o.reg = static_cast<u16>(first + low);
  o.width = static_cast<u8>(high - low + 1);
  return o;
}

std::optional<Operand> operand(std::string_view s) {
  Operand o;
  if (s == "off") return o;
  bool negate = false, absolute = false, sign_extend = false;
  const auto inner = [&](std::string_view name) {
    if (!s.starts_with(name) || s.size() < name.size() + 2 || s[name.size()] != '(' || !s.ends_with(")")) return false;
    s = s.substr(name.size() + 1, s.size() - name.size() - 2);
    return true;
  };
  if (inner("neg")) negate = true;
  if (s.size() > 1 && s[0] == '-' && (s[1] < '0' || s[1] > '9')) negate = take_prefix(s, "-");
  if (inner("sext")) sign_extend = true;
  if (s.size() > 2 && s.front() == '|' && s.back() == '|') {
    absolute = true;
    s = s.substr(1, s.size() - 2);
  }
  if (inner("abs")) absolute = true;
  if (const auto r = register_operand(s)) {
    o = *r;
  } else if (s == "scc" || s == "src_scc") {
    o.kind = Operand::Kind::scc;
  } else if (s == "src_shared_base") {
    o.kind = Operand::Kind::shared_base;
  } else if (s == "src_private_base") {
    o.kind = Operand::Kind::private_base;
  } else if (const auto n = number(s)) {
    o.kind = Operand::Kind::integer;
    o.integer = static_cast<u64>(*n);
    o.literal = s.find("0x") != s.npos;
  } else {
    char* end = nullptr;
    const std::string copy(s);
    o.kind = Operand::Kind::real;
    o.real = std::strtod(copy.c_str(), &end);
    if (copy.empty() || *end != 0 || (copy[0] != '-' && (copy[0] < '0' || copy[0] > '9'))) return std::nullopt;
  }
  o.negate = negate;
  o.absolute = absolute;
  o.sign_extend = sign_extend;
  return o;
}

std::optional<Part> part(std::string_view s) {
  static const std::map<std::string_view, Part> kParts = {{"DWORD", Part::dword}, {"BYTE_0", Part::byte0}, {"BYTE_1", Part::byte1},
                                                          {"BYTE_2", Part::byte2}, {"BYTE_3", Part::byte3}, {"WORD_0", Part::word0},
                                                          {"WORD_1", Part::word1}};
  const auto it = kParts.find(s);
  return it != kParts.end() ? std::optional(it->second) : std::nullopt;
}

/// A bit for each listed operand.
std::optional<u8> bits_of(std::string_view s) {
  const auto values = list(s);
  if (!values || values->size() > 4) return std::nullopt;
  u8 bits = 0;
  for (std::size_t k = 0; k < values->size(); ++k)
    if ((*values)[k] != 0) bits |= static_cast<u8>(1u << k);
  return bits;
}

bool cross_lane(std::string_view name, std::string_view value, Instruction& i) {
  using Kind = CrossLane::Kind;
  static const std::map<std::string_view, Kind> kKinds = {
      {"quad_perm", Kind::quad_perm}, {"row_shl", Kind::row_shl},     {"row_shr", Kind::row_shr},     {"row_ror", Kind::row_ror},
      {"row_mirror", Kind::row_mirror}, {"row_half_mirror", Kind::row_half_mirror}, {"row_share", Kind::row_share},
      {"row_xmask", Kind::row_xmask}, {"dpp8", Kind::dpp8}};
  const auto it = kKinds.find(name);
  if (it == kKinds.end() || i.cross.kind != Kind::none) return false;
  i.cross.kind = it->second;
  i.modifiers |= kDpp;
  if (value.empty()) return it->second == Kind::row_mirror || it->second == Kind::row_half_mirror;
  const auto values = value[0] == '[' ? list(value) : std::nullopt;
  if (values) {
    if (values->size() != (it->second == Kind::dpp8 ? 8u : 4u)) return false;
    for (std::size_t k = 0; k < values->size(); ++k) i.cross.select[k] = static_cast<u8>((*values)[k]);
    return true;
  }
  const auto one = number(value);
  if (!one || *one < 0 || *one > 15) return false;
  i.cross.select[0] = static_cast<u8>(*one);
  return true;
}

/// False: not known.
bool modifier(std::string_view s, Instruction& i) {
  static const std::map<std::string_view, u32> kFlags = {{"glc", kGlc}, {"slc", kSlc}, {"dlc", kDlc}, {"offen", kOffen}, {"clamp", kClamp}, {"gds", kGds}};
  if (const auto it = kFlags.find(s); it != kFlags.end()) {
    i.modifiers |= it->second;
    return true;
  }
  const auto colon = s.find(':');
  const std::string_view name = s.substr(0, colon), value = colon == s.npos ? std::string_view() : s.substr(colon + 1);
  if (cross_lane(name, value, i)) return true;
  const auto n = number(value);
  const auto set = [&](auto& field, Modifier m) {
    if (!n) return false;
    field = static_cast<std::remove_reference_t<decltype(field)>>(*n);
    i.modifiers |= m;
    return true;
  };
  if (name == "offset" && value.starts_with("swizzle(")) {
    i.modifiers |= kSwizzle;
    return true;
  }
  if (name == "offset") return set(i.offset, kOffset);
  if (name == "offset0") return set(i.offset, kOffsets);
  if (name == "offset1") return set(i.offset1, kOffsets);
  if (name == "row_mask") return set(i.cross.row_mask, kDpp);
  if (name == "bank_mask") return set(i.cross.bank_mask, kDpp);
  // Printed as :0 by old versions and :1 by new ones; either way the bit is set.
  if (name == "bound_ctrl") return i.cross.bound_control = n.has_value();
  if (name == "fi") return set(i.cross.fetch_inactive, kDpp);
  if (name == "mul" && n) {
    i.scale = *n == 2 ? 1 : *n == 4 ? 2 : 0;
    i.modifiers |= kScale;
    return i.scale != 0;
  }
  if (name == "div") {
    i.scale = 3;
    i.modifiers |= kScale;
    return n == 2;
  }
  const std::pair<std::string_view, std::pair<u8*, Modifier>> masks[] = {{"op_sel", {&i.op_sel, kOpSel}}, {"op_sel_hi", {&i.op_sel_hi, kOpSelHi}},
                                                                         {"neg_lo", {&i.neg_lo, kNegLo}}, {"neg_hi", {&i.neg_hi, kNegHi}}};
  for (const auto& [called, to] : masks) {
    if (name != called) continue;
    const auto bits = bits_of(value);
    if (!bits) return false;
    *to.first = *bits;
    i.modifiers |= to.second;
    return true;
  }
  static constexpr std::string_view kSelects[] = {"dst_sel", "src0_sel", "src1_sel"};
  for (std::size_t k = 0; k < 3; ++k) {
    if (name != kSelects[k]) continue;
    const auto p = part(value);
    if (!p) return false;
    i.part[k] = *p;
    i.modifiers |= kSdwa;
    return true;
  }
  if (name == "dst_unused") {
    static const std::map<std::string_view, Instruction::Unused> kUnused = {{"UNUSED_PAD", Instruction::Unused::pad},
                                                                            {"UNUSED_SEXT", Instruction::Unused::sign},
                                                                            {"UNUSED_PRESERVE", Instruction::Unused::preserve}};
    const auto it = kUnused.find(value);
    if (it == kUnused.end()) return false;
    i.unused = it->second;
    i.modifiers |= kSdwa;
    return true;
  }
  return false;
}

/// hwreg(HW_REG_MODE, 0, 8): a name, then numbers.
bool named_arguments(std::string_view s, std::string_view function, Instruction& i) {
  if (!s.starts_with(function) || !s.ends_with(")")) return false;
  s.remove_prefix(function.size());
  s = s.substr(1, s.size() - 2);
  const auto parts = split(s, ',');
  if (parts.empty()) return false;
  i.register_name = parts[0];
  for (std::size_t k = 1; k < parts.size(); ++k) {
    const auto n = number(parts[k]);
    if (!n) return false;
    i.arguments.push_back(static_cast<u32>(*n));
  }
  return true;
}

}  // namespace

std::optional<Instruction> parse(std::string_view text, std::string& why) {
  Instruction i;
  text = trimmed(text);
  i.text = text;
  const auto space = text.find(' ');
  i.mnemonic = text.substr(0, space);
  for (const std::string_view suffix : {"_e32", "_e64", "_dpp", "_dpp8", "_sdwa"})
    if (i.mnemonic.ends_with(suffix)) i.mnemonic.resize(i.mnemonic.size() - suffix.size());
  i.first_source = i.mnemonic.starts_with("v_cmpx") ? 0 : i.mnemonic.find("_co_") != i.mnemonic.npos ? 2 : 1;
  if (i.mnemonic.starts_with("s_waitcnt") || space == text.npos) return i;  // nothing is outstanding, ever
  auto parts = split(text.substr(space + 1), ',');
  for (std::size_t k = 0; k < parts.size(); ++k) {
    const auto words = split(parts[k], ' ');
    std::size_t word = 0;
    // Modifiers follow the last operand; an instruction without operands may have them at once.
    if (named_arguments(words[0], "hwreg", i) || named_arguments(words[0], "sendmsg", i)) {
      word = 1;
      i.operands.push_back({});
    } else if (const auto o = operand(words[0])) {
      i.operands.push_back(*o);
      word = 1;
    }
    for (; word < words.size(); ++word) {
      if (k + 1 == parts.size() && modifier(words[word], i)) continue;
      why = fmt::format("\"{}\" is not understood", words[word]);
      return std::nullopt;
    }
  }
  return i;
}

}  // namespace sim
