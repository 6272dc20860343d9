// SPDX-License-Identifier: Apache-2.0
// Resources (reports, logs, sources, disassembly of a session) and the prompt of the tuning loop.
#pragma once
#include "mcp/tools.h"

namespace klab::mcp {

Result<Json> list_resources(const Call& call);
Json list_resource_templates();
/// Errors: not_found for an address that is none of ours.
Result<Json> read_resource(const Call& call, const std::string& uri);
Json list_prompts();
/// Errors: not_found.
Result<Json> get_prompt(const std::string& name, const Json& arguments);

}  // namespace klab::mcp
