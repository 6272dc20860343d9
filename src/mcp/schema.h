// SPDX-License-Identifier: Apache-2.0
// Checks a value against the part of JSON Schema 2020-12 that our tools' schemas use. Not a validator for
// schemas of others: a keyword that it does not know is a bug of ours.
#pragma once
#include <string>

#include "base/json.h"

namespace klab::mcp {

/// The first thing that is wrong, for whoever wrote the value: "iterations: 20000 is more than 10000"; ""
/// when nothing is. Keywords: type, properties, required, additionalProperties (false), items, maxItems,
/// enum, const, minimum, maximum, minLength, maxLength; description, default, title and examples are ignored.
std::string violation(const Json& schema, const Json& value, const std::string& where = "");

}  // namespace klab::mcp
