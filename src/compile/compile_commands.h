// SPDX-License-Identifier: Apache-2.0
// How a project builds a CUDA file, from its compile_commands.json.
#pragma once
#include <optional>
#include <string>

#include "base/error.h"
#include "base/files.h"
#include "compile/protocol.h"

namespace klab::compile {

struct ProjectOptions {
  Options options;    // include_folders (absolute), defines, standard, fast_math, max_registers, project
  fs::path database;  // the file it came from
  std::vector<std::string> ignored;  // options that mean nothing here: -arch, -c, -o
};

/// compile_commands.json in a folder of `source` or above it, or in a `build*` folder beside one. Empty:
/// none.
fs::path find_compile_commands(const fs::path& source);

/// The entry for `source`. Errors: not_found (the file is not in it), invalid_data, io_failed.
Result<ProjectOptions> read_compile_commands(const fs::path& database, const fs::path& source);

/// Takes apart an nvcc (or clang) command line, relative folders being below `folder`. Response files are not
/// read.
ProjectOptions options_of_command(const std::vector<std::string>& argv, const fs::path& folder);

/// A command line as a shell would split it; quotes and backslashes only.
std::vector<std::string> split_command(std::string_view command);

}  // namespace klab::compile
