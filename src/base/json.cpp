// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <fmt/format.h>

namespace klab {
namespace {
constexpr int kMaxDepth = 64;

// Depth is counted on the text first: nlohmann recurses when it destroys a deep value.
bool deeper_than(std::string_view text, int limit) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > limit) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}
}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view source, std::size_t max_bytes) {
  if (text.size() > max_bytes)
    return fail(ErrorCode::cap_reached,
                fmt::format("{} is {} bytes; at most {} are read", source, text.size(), max_bytes));
  if (deeper_than(text, kMaxDepth))
    return fail(ErrorCode::invalid_data, fmt::format("{}: JSON nested deeper than {}", source, kMaxDepth));
  try {
    return Json::parse(text);
  } catch (const std::exception& e) {
    return fail(ErrorCode::invalid_data, fmt::format("{}: {}", source, e.what()));
  }
}

std::string to_hex(std::span<const std::byte> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (std::byte b : bytes) {
    text += kDigits[std::to_integer<unsigned>(b) >> 4];
    text += kDigits[std::to_integer<unsigned>(b) & 15];
  }
  return text;
}

Result<std::vector<std::byte>> from_hex(std::string_view text) {
  auto digit = [](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  if (text.size() % 2 != 0) return fail(ErrorCode::invalid_data, "hexadecimal text of odd length");
  std::vector<std::byte> bytes(text.size() / 2);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return fail(ErrorCode::invalid_data, "not hexadecimal text");
    bytes[i] = static_cast<std::byte>(high * 16 + low);
  }
  return bytes;
}

void to_json(Json& j, const Bytes& bytes) { j = to_hex(bytes); }
void from_json(const Json& j, Bytes& bytes) {
  auto parsed = from_hex(j.get_ref<const std::string&>());
  if (!parsed) throw std::runtime_error(parsed.error().what);
  bytes = Bytes(std::move(*parsed));
}

void to_json(Json& j, const Error& error) {
  j = Json{{"code", to_string(error.code)}, {"what", error.what}};
  if (!error.hint.empty()) j["hint"] = error.hint;
  if (error.vendor != 0) j["vendor"] = error.vendor;
}
void from_json(const Json& j, Error& error) {
  error.code = error_code_from(j.at("code").get<std::string>()).value_or(ErrorCode::internal);
  read_optional(j, "what", error.what);
  read_optional(j, "hint", error.hint);
  read_optional(j, "vendor", error.vendor);
}

}  // namespace klab
