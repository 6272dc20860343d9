// SPDX-License-Identifier: Apache-2.0
#include "ops/granted.h"

#include <fmt/format.h>

#include "base/files.h"

namespace klab::ops {

bool lies_under(const std::string& path, const std::vector<std::string>& folders) {
  std::error_code ec;
  const fs::path resolved = fs::weakly_canonical(path, ec);
  if (ec) return false;
  for (const std::string& folder : folders) {
    const fs::path relative = resolved.lexically_relative(folder);
    if (!relative.empty() && *relative.begin() != "..") return true;
  }
  return false;
}

Result<Json> open_arguments(const Granted& granted, const Json& asked, const std::string& front_end) {
  Json arguments{{"roots", granted.roots}, {"made_by", front_end}};
  if (!granted.project.empty()) arguments["settings_folder"] = granted.project;
  std::string program, bundle;
  try {
    read_optional(asked, "program", program);
    read_optional(asked, "bundle", bundle);
    if (asked.contains("name")) arguments["name"] = asked["name"].get<std::string>();
  } catch (const std::exception& e) {
    return fail(ErrorCode::usage, e.what());
  }
  if (!bundle.empty()) {
    if (!lies_under(bundle, granted.roots))
      return fail(ErrorCode::usage, "the bundle lies outside the folders that the user allowed",
                  "allowed are: " + Json(granted.roots).dump());
    arguments["bundle"] = bundle;
  }
  if (program.empty()) return arguments;
  const auto found = granted.programs.find(program);
  if (found == granted.programs.end()) {
    std::string names;
    for (const auto& [name, one] : granted.programs) names += (names.empty() ? "" : ", ") + name;
    return fail(ErrorCode::not_found, "the user allowed no program of that name",
                names.empty() ? "ask the user to start the server with --program NAME=..." : "allowed are: " + names);
  }
  if (found->second.of_project)
    arguments["program_name"] = found->first;
  else
    arguments["program"] = found->second.argv;
  if (!found->second.of_project && !found->second.working_folder.empty())
    arguments["working_folder"] = found->second.working_folder;
  return arguments;
}

}  // namespace klab::ops
