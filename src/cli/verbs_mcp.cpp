// SPDX-License-Identifier: Apache-2.0
// mcp: the server for agents.
#include <unistd.h>

#include <fmt/format.h>

#include "base/ids.h"
#include "cli/cli.h"
#include "cli/grants.h"
#include "mcp/http.h"
#include "mcp/stdio.h"

namespace klab::cli {
namespace {

struct McpOptions {
  GrantOptions granted;
  std::string socket, token_file;
  int port = -1;
};

int do_mcp(Cli& cli, const McpOptions& o) {
  auto allowed = granted_of(o.granted);
  if (!allowed) return cli.report(allowed.error());
  hub::Client client({.alone = cli.no_hub, .front_end = "mcp"});
  const mcp::Call call = [&client](const std::string& verb, const Json& arguments,
                                   const hub::OnProgress& progress, const std::function<bool()>& cancelled) {
    return client.call(verb, arguments, progress, cancelled);
  };
  mcp::Server server(*allowed, call, KLAB_VERSION);
  const auto stop = [&cli] { return cli.lab.cancelled(); };
  if (o.port < 0 && o.socket.empty()) {
    mcp::serve_stdio(server, STDIN_FILENO, STDOUT_FILENO, stop);
    return 0;
  }
  mcp::HttpOptions http{.port = std::max(o.port, 0), .socket = o.socket, .token = new_id(64)};
  const auto ready = [&](const std::string& url) {
    if (o.token_file.empty()) {
      fmt::print(stderr, "klab: serving MCP at {}\n  token: {}\n", url, http.token);
    } else if (auto wrote = write_file_atomic(o.token_file, http.token + "\n"); !wrote) {
      fmt::print(stderr, "klab: {}\n", wrote.error().what);
    } else {
      fmt::print(stderr, "klab: serving MCP at {}\n  token in {}\n", url, o.token_file);
    }
    std::fflush(stderr);
  };
  if (auto served = mcp::serve_http(server, http, ready, stop); !served) return cli.report(served.error());
  return 0;
}

}  // namespace

void add_mcp_verb(Cli& cli) {
  auto options = std::make_shared<McpOptions>();
  auto* verb = cli.verb("mcp", "serve agents by the Model Context Protocol (stdio; or HTTP on loopback)",
                        "klab mcp --root . --program matmul='./matmul --size 1024'");
  add_grant_options(verb, options->granted);
  verb->add_option("--http", options->port, "serve HTTP on this port of 127.0.0.1 (0: a free one)")
      ->check(CLI::Range(0, 65535));
  verb->add_option("--socket", options->socket, "serve HTTP on a Unix socket at this path");
  verb->add_option("--token-file", options->token_file,
                   "write the token there (0600) in place of printing it");
  cli.run_on(verb, [&cli, options] { return do_mcp(cli, *options); });
}

}  // namespace klab::cli
