// SPDX-License-Identifier: Apache-2.0
// The verbs by name, JSON in and JSON out: what the hub, MCP and the page call, and what the CLI prints.
// Paths in arguments are absolute: a caller's working folder is not ours.
#pragma once
#include <span>
#include <string_view>

#include "ops/lab.h"

namespace klab::ops {

/// What a verb starts. `nothing` and `compiler` load no driver.
enum class Uses { nothing, compiler, device, program };

struct Verb {
  std::string_view name;  // "replay", "session.run"
  std::string_view purpose;
  Uses uses = Uses::nothing;
  bool reads_only = false;  // changes no file of the user's and no row of the store
  Result<Json> (*run)(Lab& lab, const Json& arguments) = nullptr;
};

/// All of them, in the order of `klab --help`; those of sessions are in session_api.cpp.
std::span<const Verb> verbs();
const Verb* find_verb(std::string_view name);
/// Errors: usage for an unknown verb or member, and those of the verb.
Result<Json> call(Lab& lab, std::string_view verb, const Json& arguments);

}  // namespace klab::ops
