// SPDX-License-Identifier: Apache-2.0
// A project's own settings: klab.toml, docs/klab-toml.md.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"

namespace klab::ops {

/// A program that a session may run, by name.
struct ProgramSettings {
  std::vector<std::string> argv;
  std::string working_folder;  // absolute
  std::map<std::string, std::string> environment;
};

/// Caps that a session gets when it is opened, and what the user allowed. All paths are absolute.
struct Settings {
  std::int64_t max_runs = 1000;
  double worker_budget_s = 600;
  std::uint64_t job_log_bytes = 64ull << 20;
  std::vector<std::string> roots;
  std::vector<std::string> allow_save;  // folders where a save needs no person's approval
  std::map<std::string, ProgramSettings> programs;
  std::map<std::string, std::vector<std::string>> checkers;  // programs that may judge outcomes (docs/validation.md)
  std::map<std::string, std::map<std::string, std::string>> types;  // kernel -> region -> element type
  std::string file;  // where they were read; empty: defaults
};

/// As a session keeps them: caps, allow_save, environment of its program.
void to_json(Json& j, const Settings& v);
void from_json(const Json& j, Settings& v);

/// klab.toml of `folder` or the nearest above it; defaults where there is none. Errors: not_allowed (not ours, or
/// others may write it), invalid_data naming the line, io_failed.
Result<Settings> read_settings(const fs::path& folder);
/// `file` names the text; relative paths in it are below its folder. Errors: invalid_data.
Result<Settings> parse_settings(std::string_view text, const fs::path& file);

}  // namespace klab::ops
