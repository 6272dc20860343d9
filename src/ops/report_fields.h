// SPDX-License-Identifier: Apache-2.0
// Reading a report that may lack any member or have it of another type: nothing here throws.
#pragma once
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace klab::ops::fields {

/// The member, or null.
inline const Json& at(const Json& j, std::string_view name) {
  static const Json none;
  if (!j.is_object()) return none;
  const auto it = j.find(name);
  return it == j.end() ? none : *it;
}
template <class... Names>
const Json& at(const Json& j, std::string_view name, std::string_view next, Names... more) {
  return at(at(j, name), next, more...);
}

inline std::optional<double> number(const Json& j) {
  if (!j.is_number()) return std::nullopt;
  const double value = j.get<double>();
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}
inline double number_or(const Json& j, double other) { return number(j).value_or(other); }

/// The string; of other values their JSON; of null nothing.
inline std::string text(const Json& j) {
  if (j.is_string()) return j.get<std::string>();
  return j.is_null() ? "" : j.dump(-1, ' ', false, Json::error_handler_t::replace);
}
inline bool flag(const Json& j) { return j.is_boolean() && j.get<bool>(); }

inline std::vector<double> numbers(const Json& j) {
  std::vector<double> values;
  if (!j.is_array()) return values;
  values.reserve(j.size());
  for (const Json& one : j)
    if (const auto value = number(one)) values.push_back(*value);
  return values;
}

}  // namespace klab::ops::fields
