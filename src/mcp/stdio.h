// SPDX-License-Identifier: Apache-2.0
// MCP over two pipes: one message a line. Nothing but messages goes out.
#pragma once
#include "mcp/server.h"

namespace klab::mcp {

/// Serves until `in` ends, or `stop` is true (polled); then what plain calls run is stopped, while jobs go
/// on.
void serve_stdio(Server& server, int in, int out, const std::function<bool()>& stop);

}  // namespace klab::mcp
