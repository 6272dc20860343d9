// SPDX-License-Identifier: Apache-2.0
// The options by which a person says what a server may do: of mcp and of serve.
#pragma once
#include "cli/cli.h"
#include "ops/granted.h"

namespace klab::cli {

struct GrantOptions {
  std::vector<std::string> roots, programs, save_roots;
  std::string working_folder, project;
  bool read_only = false;
};

void add_grant_options(CLI::App* verb, GrantOptions& options);
/// Errors: not_found (a folder), usage (a program that is none), those of klab.toml.
Result<ops::Granted> granted_of(const GrantOptions& options);

}  // namespace klab::cli
