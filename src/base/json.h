// SPDX-License-Identifier: Apache-2.0
// JSON at the edges: parse and decode foreign bytes into Result, never an exception across a module.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace klab {

using Json = nlohmann::json;

/// Parses `text`. Depth over 64 and text over `max_bytes` are refused before anything is built.
/// Errors: invalid_data (names `source` and the byte), cap_reached.
Result<Json> parse_json(std::string_view text, std::string_view source, std::size_t max_bytes = 256u << 20);

/// Converts with T's from_json. Errors: invalid_data, naming `source` and the member.
template <class T>
Result<T> decode_json(const Json& value, std::string_view source) {
  try {
    return value.get<T>();
  } catch (const std::exception& e) {
    return fail(ErrorCode::invalid_data, std::string(source) + ": " + e.what());
  }
}

std::string to_hex(std::span<const std::byte> bytes);
/// Errors: invalid_data for odd length or a character outside 0-9a-fA-F.
Result<std::vector<std::byte>> from_hex(std::string_view text);

/// Reads `value[name]` into `out` when present; throws nlohmann's error when the type is wrong.
template <class T>
void read_optional(const Json& value, const char* name, T& out) {
  if (auto it = value.find(name); it != value.end() && !it->is_null()) {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      // nlohmann narrows silently, and foreign numbers must not wrap.
      if (!it->is_number_integer()) throw std::runtime_error(std::string(name) + " is not an integer");
      if (it->is_number_unsigned()) {
        const auto wide = it->template get<std::uint64_t>();
        if (!std::in_range<T>(wide)) throw std::runtime_error(std::string(name) + " is out of range");
        out = static_cast<T>(wide);
      } else {
        const auto wide = it->template get<std::int64_t>();
        if (!std::in_range<T>(wide)) throw std::runtime_error(std::string(name) + " is out of range");
        out = static_cast<T>(wide);
      }
    } else {
      out = it->template get<T>();
    }
  }
}
/// As read_optional, but the member must be there.
template <class T>
void read_required(const Json& value, const char* name, T& out) {
  if (!value.is_object() || !value.contains(name)) throw std::runtime_error(std::string("no member ") + name);
  read_optional(value, name, out);
}

/// Bytes are hexadecimal strings in JSON.
struct Bytes : std::vector<std::byte> {
  using std::vector<std::byte>::vector;
  Bytes(std::vector<std::byte> v) : std::vector<std::byte>(std::move(v)) {}
};
void to_json(Json& j, const Bytes& bytes);
void from_json(const Json& j, Bytes& bytes);

void to_json(Json& j, const Error& error);
void from_json(const Json& j, Error& error);

}  // namespace klab

/// Enumerators are spelled in JSON as in C++; an unknown word throws (foreign bytes must not become
/// enumerator 0). Use in the enum's namespace: KLAB_JSON_ENUM(MemoryKind, device, managed)
#define KLAB_JSON_ENUM_CASE_(E, x) \
  case E::x:                       \
    return #x;
#define KLAB_JSON_ENUM_IF_(E, x) \
  if (text == #x) {              \
    value = E::x;                \
    return true;                 \
  }
#define KLAB_JSON_ENUM(E, ...)                                                                    \
  inline const char* to_string(E value) {                                                         \
    switch (value) { NLOHMANN_JSON_EXPAND(KLAB_FOR_EACH_(KLAB_JSON_ENUM_CASE_, E, __VA_ARGS__)) } \
    return "?";                                                                                   \
  }                                                                                               \
  inline bool from_string(std::string_view text, E& value) {                                      \
    NLOHMANN_JSON_EXPAND(KLAB_FOR_EACH_(KLAB_JSON_ENUM_IF_, E, __VA_ARGS__)) return false;        \
  }                                                                                               \
  inline void to_json(::klab::Json& j, E value) { j = to_string(value); }                         \
  inline void from_json(const ::klab::Json& j, E& value) {                                        \
    if (!j.is_string() || !from_string(j.get_ref<const std::string&>(), value))                   \
      throw std::runtime_error("unknown " #E ": " + j.dump());                                    \
  }
// One macro call per element, up to 24.
#define KLAB_FE_1(m, e, x) m(e, x)
#define KLAB_FE_2(m, e, x, ...) m(e, x) KLAB_FE_1(m, e, __VA_ARGS__)
#define KLAB_FE_3(m, e, x, ...) m(e, x) KLAB_FE_2(m, e, __VA_ARGS__)
#define KLAB_FE_4(m, e, x, ...) m(e, x) KLAB_FE_3(m, e, __VA_ARGS__)
#define KLAB_FE_5(m, e, x, ...) m(e, x) KLAB_FE_4(m, e, __VA_ARGS__)
#define KLAB_FE_6(m, e, x, ...) m(e, x) KLAB_FE_5(m, e, __VA_ARGS__)
#define KLAB_FE_7(m, e, x, ...) m(e, x) KLAB_FE_6(m, e, __VA_ARGS__)
#define KLAB_FE_8(m, e, x, ...) m(e, x) KLAB_FE_7(m, e, __VA_ARGS__)
#define KLAB_FE_9(m, e, x, ...) m(e, x) KLAB_FE_8(m, e, __VA_ARGS__)
#define KLAB_FE_10(m, e, x, ...) m(e, x) KLAB_FE_9(m, e, __VA_ARGS__)
#define KLAB_FE_11(m, e, x, ...) m(e, x) KLAB_FE_10(m, e, __VA_ARGS__)
#define KLAB_FE_12(m, e, x, ...) m(e, x) KLAB_FE_11(m, e, __VA_ARGS__)
#define KLAB_FE_13(m, e, x, ...) m(e, x) KLAB_FE_12(m, e, __VA_ARGS__)
#define KLAB_FE_14(m, e, x, ...) m(e, x) KLAB_FE_13(m, e, __VA_ARGS__)
#define KLAB_FE_15(m, e, x, ...) m(e, x) KLAB_FE_14(m, e, __VA_ARGS__)
#define KLAB_FE_16(m, e, x, ...) m(e, x) KLAB_FE_15(m, e, __VA_ARGS__)
#define KLAB_FE_PICK_(_1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16, N, ...) N
#define KLAB_FOR_EACH_(m, e, ...)                                                                        \
  KLAB_FE_PICK_(__VA_ARGS__, KLAB_FE_16, KLAB_FE_15, KLAB_FE_14, KLAB_FE_13, KLAB_FE_12, KLAB_FE_11,     \
                KLAB_FE_10, KLAB_FE_9, KLAB_FE_8, KLAB_FE_7, KLAB_FE_6, KLAB_FE_5, KLAB_FE_4, KLAB_FE_3, \
                KLAB_FE_2, KLAB_FE_1)                                                                    \
  (m, e, __VA_ARGS__)
