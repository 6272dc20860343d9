// SPDX-License-Identifier: Apache-2.0
// mcp: the server for agents.
#include <unistd.h>

#include <fmt/format.h>

#include "base/ids.h"
#include "cli/cli.h"
#include "mcp/http.h"
#include "mcp/stdio.h"
#include "ops/settings.h"

namespace klab::cli {
namespace {

struct McpOptions {
  std::vector<std::string> roots, programs, save_roots;
  std::string working_folder, socket, token_file, project;
  int port = -1;
  bool read_only = false;
};

/// Absolute and without links: what a session is held to is compared with resolved paths.
Result<std::string> folder_of(const std::string& path) {
  std::error_code ec;
  const fs::path resolved = fs::canonical(path, ec);
  if (ec || !fs::is_directory(resolved, ec))
    return fail(ErrorCode::not_found, path + " is not a folder", "name one that is there");
  return resolved.string();
}

/// NAME=["program", "argument"] or NAME=program argument (split at spaces; no shell).
Result<std::pair<std::string, mcp::Program>> program_of_text(const std::string& text,
                                                             const std::string& working_folder) {
  const auto at = text.find('=');
  const std::string name = text.substr(0, at), command = at == std::string::npos ? "" : text.substr(at + 1);
  mcp::Program program{.working_folder = working_folder};
  if (!command.empty() && command[0] == '[') {
    KLAB_TRY(const Json list, parse_json(command, "--program", 1u << 20));
    KLAB_TRY(program.argv, decode_json<std::vector<std::string>>(list, "--program"));
  } else {
    for (const std::string& word : CLI::detail::split(command, ' '))
      if (!word.empty()) program.argv.push_back(word);
  }
  if (name.empty() || program.argv.empty())
    return fail(ErrorCode::usage, "--program " + text + ": not NAME=COMMAND",
                R"(--program matmul=./matmul, or --program 'matmul=["./matmul", "--size", "1024"]')");
  if (program.argv[0].find('/') != std::string::npos) program.argv[0] = absolute_path(program.argv[0]);
  return std::pair{name, std::move(program)};
}

Result<mcp::Allowed> allowed_of(const McpOptions& o) {
  mcp::Allowed allowed{.read_only = o.read_only};
  for (const std::string& root : o.roots.empty() ? std::vector<std::string>{"."} : o.roots) {
    KLAB_TRY(allowed.roots.emplace_back(), folder_of(root));
  }
  for (const std::string& root : o.save_roots) {
    KLAB_TRY(allowed.save_roots.emplace_back(), folder_of(root));
  }
  if (!o.project.empty()) {
    KLAB_TRY(allowed.project, folder_of(o.project));
    KLAB_TRY(const ops::Settings settings, ops::read_settings(allowed.project));
    for (const auto& [name, program] : settings.programs)
      allowed.programs[name] = {
          .argv = program.argv, .working_folder = program.working_folder, .of_project = true};
    if (o.roots.empty() && !settings.roots.empty()) {
      allowed.roots.clear();
      for (const std::string& root : settings.roots) {
        KLAB_TRY(allowed.roots.emplace_back(), folder_of(root));
      }
    }
    for (const std::string& root : settings.allow_save) {
      KLAB_TRY(allowed.save_roots.emplace_back(), folder_of(root));
    }
  }
  KLAB_TRY(const std::string working, folder_of(o.working_folder.empty() ? "." : o.working_folder));
  for (const std::string& text : o.programs) {
    KLAB_TRY(auto program, program_of_text(text, working));
    allowed.programs[program.first] = std::move(program.second);
  }
  return allowed;
}

int do_mcp(Cli& cli, const McpOptions& o) {
  auto allowed = allowed_of(o);
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
  verb->add_option("--root", options->roots,
                   "folder that sessions may read and write under (default: the current one)")
      ->allow_extra_args(false);
  verb->add_option("--program", options->programs,
                   "NAME=COMMAND: a program that may be run, by its name; no shell")
      ->allow_extra_args(false);
  verb->add_option("--project", options->project, "folder whose klab.toml names programs, roots and caps");
  verb->add_option("--working-folder", options->working_folder,
                   "where programs are run (default: the current folder)");
  verb->add_option("--allow-save", options->save_roots,
                   "folder whose files may be saved without asking a person")
      ->allow_extra_args(false);
  verb->add_flag("--read-only", options->read_only, "only the tools that change nothing");
  verb->add_option("--http", options->port, "serve HTTP on this port of 127.0.0.1 (0: a free one)")
      ->check(CLI::Range(0, 65535));
  verb->add_option("--socket", options->socket, "serve HTTP on a Unix socket at this path");
  verb->add_option("--token-file", options->token_file,
                   "write the token there (0600) in place of printing it");
  cli.run_on(verb, [&cli, options] { return do_mcp(cli, *options); });
}

}  // namespace klab::cli
