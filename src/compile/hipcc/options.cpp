// SPDX-License-Identifier: Apache-2.0
#include "compile/hipcc/options.h"

#include <fmt/format.h>

namespace klab::compile {

Status check_hip_options(const Options& options) {
  if (!options.arch.starts_with("gfx"))
    return fail(ErrorCode::usage, fmt::format("\"{}\" is no AMD processor", options.arch), "for example --arch gfx1030");
  if (options.max_registers != 0)
    return fail(ErrorCode::usage, "compilers of HIP have no limit of registers by number",
                "bound them by __launch_bounds__ in the source, or by --option");
  return {};
}

void add_hip_options(const Options& o, const std::string& own_folder, std::vector<std::string>& argv) {
  if (!o.standard.empty()) argv.push_back("-std=" + o.standard);
  argv.emplace_back(o.optimisation == "none" ? "-O0" : o.optimisation == "size" ? "-Os" : "-O3");
  if (o.line_info) argv.emplace_back("-gline-tables-only");
  if (o.fast_math) argv.emplace_back("-ffast-math");
  for (const std::string& d : o.defines) argv.push_back("-D" + d);
  for (const std::string& folder : o.include_folders) argv.push_back("-I" + (folder.empty() ? "." : folder));
  if (!own_folder.empty()) argv.push_back("-I" + own_folder);
  argv.insert(argv.end(), o.project.begin(), o.project.end());
  argv.insert(argv.end(), o.extra.begin(), o.extra.end());
}

}  // namespace klab::compile
