// SPDX-License-Identifier: Apache-2.0
#include "mcp/schema.h"

#include <fmt/format.h>

namespace klab::mcp {
namespace {

bool is_type(const std::string& type, const Json& v) {
  if (type == "object") return v.is_object();
  if (type == "array") return v.is_array();
  if (type == "string") return v.is_string();
  if (type == "boolean") return v.is_boolean();
  if (type == "number") return v.is_number();
  if (type == "integer")
    return v.is_number_integer() ||
           (v.is_number_float() &&
            v.get<double>() == static_cast<double>(static_cast<std::int64_t>(v.get<double>())));
  KLAB_CHECK(type == "null");
  return v.is_null();
}

std::string shown(const Json& v) {
  std::string text = v.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > 80) text = text.substr(0, 77) + "...";
  return text;
}

// Characters of UTF-8 text.
std::size_t length_of(const std::string& text) {
  std::size_t n = 0;
  for (const char c : text) n += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  return n;
}

std::string members(const Json& schema, const Json& value, const std::string& where) {
  const auto at = [&](const std::string& name) { return where.empty() ? name : where + "." + name; };
  const Json none = Json::object();
  const Json& properties = schema.contains("properties") ? schema["properties"] : none;
  if (schema.contains("required"))
    for (const Json& name : schema["required"])
      if (!value.contains(name.get_ref<const std::string&>()))
        return at(name.get<std::string>()) + ": is missing";
  for (const auto& [name, member] : value.items()) {
    const auto known = properties.find(name);
    if (known == properties.end()) {
      if (!schema.contains("additionalProperties") || schema["additionalProperties"] != false) continue;
      std::string names;
      for (const auto& [one, s] : properties.items()) names += (names.empty() ? "" : ", ") + one;
      return fmt::format("{}: there is no such member; there are: {}", at(name.substr(0, 80)), names);
    }
    if (std::string wrong = violation(*known, member, at(name)); !wrong.empty()) return wrong;
  }
  return "";
}

}  // namespace

std::string violation(const Json& schema, const Json& value, const std::string& where) {
  const std::string at = where.empty() ? "the arguments" : where;
  if (const auto type = schema.find("type"); type != schema.end() && !is_type(*type, value))
    return fmt::format("{}: {} is not of type {}", at, shown(value), type->get<std::string>());
  if (const auto one = schema.find("const"); one != schema.end() && value != *one)
    return fmt::format("{}: must be {}", at, shown(*one));
  if (const auto list = schema.find("enum"); list != schema.end()) {
    bool found = false;
    std::string names;
    for (const Json& one : *list)
      found = found || one == value, names += (names.empty() ? "" : ", ") + shown(one);
    if (!found) return fmt::format("{}: {} is none of {}", at, shown(value), names);
  }
  if (value.is_number()) {
    const double number = value.get<double>();
    if (schema.contains("minimum") && number < schema["minimum"].get<double>())
      return fmt::format("{}: {} is less than {}", at, shown(value), shown(schema["minimum"]));
    if (schema.contains("maximum") && number > schema["maximum"].get<double>())
      return fmt::format("{}: {} is more than {}", at, shown(value), shown(schema["maximum"]));
  }
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (text.find('\0') != std::string::npos) return at + ": a text with a NUL in it";
    const std::size_t length = length_of(text);
    if (schema.contains("minLength") && length < schema["minLength"].get<std::size_t>())
      return fmt::format("{}: {} characters are fewer than {}", at, length, shown(schema["minLength"]));
    if (schema.contains("maxLength") && length > schema["maxLength"].get<std::size_t>())
      return fmt::format("{}: {} characters are more than {}", at, length, shown(schema["maxLength"]));
  }
  if (value.is_array()) {
    if (schema.contains("maxItems") && value.size() > schema["maxItems"].get<std::size_t>())
      return fmt::format("{}: {} items are more than {}", at, value.size(), shown(schema["maxItems"]));
    if (schema.contains("items"))
      for (std::size_t i = 0; i < value.size(); ++i)
        if (std::string wrong = violation(schema["items"], value[i], fmt::format("{}[{}]", at, i));
            !wrong.empty())
          return wrong;
  }
  return value.is_object() ? members(schema, value, where) : "";
}

}  // namespace klab::mcp
