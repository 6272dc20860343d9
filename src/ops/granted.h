// SPDX-License-Identifier: Apache-2.0
// What a person allowed a front end that serves others (agents, the page) when it was started. Nothing of it can
// be widened by who is served.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace klab::ops {

struct Program {
  std::vector<std::string> argv;
  std::string working_folder;
  bool of_project = false;  // named in klab.toml, which also says its folder and environment
};

struct Granted {
  std::vector<std::string> roots;           // absolute, resolved
  std::map<std::string, Program> programs;  // by name
  std::vector<std::string> save_roots;      // files under these are saved without asking
  bool read_only = false;
  std::string project;  // folder to read klab.toml from: caps and programs
};

/// Whether `path`, with its links resolved, lies under one of `folders`.
bool lies_under(const std::string& path, const std::vector<std::string>& folders);

/// Arguments of session.open out of {name, program, bundle}, where a program is one that was allowed, by its name.
/// Errors: usage (a bundle elsewhere), not_found (a program that was not allowed).
Result<Json> open_arguments(const Granted& granted, const Json& asked, const std::string& front_end);

}  // namespace klab::ops
