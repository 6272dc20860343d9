// SPDX-License-Identifier: Apache-2.0
// Names, descriptions and schemas of the tools, and which members each action takes.
#pragma once
#include <string>
#include <vector>

#include "mcp/tools.h"

namespace klab::mcp {

/// Without `run`.
std::vector<Tool> describe_tools();
/// The schema of tuning_action is flat, because several model providers refuse oneOf at the top of a tool's
/// schema; so what an action takes is checked here. "" or what is wrong.
std::string action_violation(const std::string& action, const Json& arguments);
/// Members of tuning_action that say how a variant is built.
const std::vector<std::string>& build_members();

}  // namespace klab::mcp
