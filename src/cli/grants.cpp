// SPDX-License-Identifier: Apache-2.0
#include "cli/grants.h"

#include "ops/settings.h"

namespace klab::cli {
namespace {

/// Absolute and without links: what a session is held to is compared with resolved paths.
Result<std::string> folder_of(const std::string& path) {
  std::error_code ec;
  const fs::path resolved = fs::canonical(path, ec);
  if (ec || !fs::is_directory(resolved, ec))
    return fail(ErrorCode::not_found, path + " is not a folder", "name one that is there");
  return resolved.string();
}

/// NAME=["program", "argument"] or NAME=program argument (split at spaces; no shell).
Result<std::pair<std::string, ops::Program>> program_of_text(const std::string& text,
                                                             const std::string& working_folder) {
  const auto at = text.find('=');
  const std::string name = text.substr(0, at), command = at == std::string::npos ? "" : text.substr(at + 1);
  ops::Program program{.working_folder = working_folder};
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

}  // namespace

Result<ops::Granted> granted_of(const GrantOptions& o) {
  ops::Granted allowed{.read_only = o.read_only};
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

void add_grant_options(CLI::App* verb, GrantOptions& o) {
  verb->add_option("--root", o.roots,
                   "folder that sessions may read and write under (default: the current one)")
      ->allow_extra_args(false);
  verb->add_option("--program", o.programs,
                   "NAME=COMMAND: a program that may be run, by its name; no shell")
      ->allow_extra_args(false);
  verb->add_option("--project", o.project, "folder whose klab.toml names programs, roots and caps");
  verb->add_option("--working-folder", o.working_folder,
                   "where programs are run (default: the current folder)");
  verb->add_option("--allow-save", o.save_roots,
                   "folder whose files may be saved without asking a person")
      ->allow_extra_args(false);
  verb->add_flag("--read-only", o.read_only, "only the tools that change nothing");
}

}  // namespace klab::cli
