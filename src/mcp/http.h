// SPDX-License-Identifier: Apache-2.0
// MCP over streamable HTTP: loopback or a private Unix socket only, and only for who has the token.
#pragma once
#include "base/files.h"
#include "mcp/server.h"

namespace klab::mcp {

struct HttpOptions {
  int port = 0;       // of 127.0.0.1; 0: a free one
  fs::path socket;    // in place of a port: a Unix socket, 0600
  std::string token;  // what `Authorization: Bearer` must say
  std::size_t most_sessions = 64;
};

/// Serves POST (and DELETE) /mcp until `stop` is true (polled). `ready` hears the address once it is listened
/// on. Errors: io_failed, usage (a path too long for a socket, or something else lies there).
Status serve_http(Server& server, const HttpOptions& options,
                  const std::function<void(const std::string& url)>& ready,
                  const std::function<bool()>& stop);

}  // namespace klab::mcp
