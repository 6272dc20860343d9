// SPDX-License-Identifier: Apache-2.0
#include "compile/compile_commands.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

namespace klab::compile {
namespace {

constexpr std::uint64_t kMaxDatabase = 256u << 20;

std::string below(const fs::path& folder, const std::string& path) {
  return (fs::path(path).is_absolute() ? fs::path(path) : folder / path).lexically_normal().string();
}

}  // namespace

std::vector<std::string> split_command(std::string_view command) {
  std::vector<std::string> words;
  std::string word;
  bool in_word = false;
  char quote = 0;
  for (std::size_t i = 0; i < command.size(); ++i) {
    const char c = command[i];
    if (c == '\\' && quote != '\'' && i + 1 < command.size()) {
      word += command[++i];
      in_word = true;
    } else if (quote != 0) {
      if (c == quote)
        quote = 0;
      else
        word += c;
    } else if (c == '"' || c == '\'') {
      quote = c;
      in_word = true;
    } else if (c == ' ' || c == '\t' || c == '\n') {
      if (in_word) words.push_back(std::move(word));
      word.clear();
      in_word = false;
    } else {
      word += c;
      in_word = true;
    }
  }
  if (in_word) words.push_back(std::move(word));
  return words;
}

ProjectOptions options_of_command(const std::vector<std::string>& argv, const fs::path& folder) {
  ProjectOptions result;
  Options& o = result.options;
  // "-x VALUE", "-x=VALUE" and "-xVALUE" (joined) of one option.
  std::size_t i = 1;
  const auto value_of = [&](std::initializer_list<std::string_view> names, bool joined, std::string& value) {
    const std::string& a = argv[i];
    for (const std::string_view name : names) {
      if (a == name) {
        if (i + 1 >= argv.size()) return false;
        value = argv[++i];
        return true;
      }
      if (!a.starts_with(name)) continue;
      if (a[name.size()] == '=') {
        value = a.substr(name.size() + 1);
        return true;
      }
      if (joined) {
        value = a.substr(name.size());
        return true;
      }
    }
    return false;
  };
  for (; i < argv.size(); ++i) {
    const std::string& a = argv[i];
    std::string value;
    const std::size_t first = i;
    if (value_of({"-isystem", "--system-include", "-iquote", "--include-path"}, false, value) ||
        value_of({"-I"}, true, value)) {
      o.include_folders.push_back(below(folder, value));
    } else if (value_of({"--define-macro"}, false, value) || value_of({"-D"}, true, value)) {
      o.defines.push_back(value);
    } else if (value_of({"-std", "--std"}, false, value)) {
      o.standard = value.starts_with("gnu++") ? "c++" + value.substr(5) : value;
    } else if (a == "-use_fast_math" || a == "--use_fast_math" || a == "-ffast-math") {
      o.fast_math = true;
    } else if (value_of({"-maxrregcount", "--maxrregcount"}, false, value)) {
      (void)std::from_chars(value.data(), value.data() + value.size(), o.max_registers);
    } else if (a == "-include" || a == "--pre-include" || a == "-pre-include") {
      if (i + 1 < argv.size()) {
        o.project.push_back("-include");
        o.project.push_back(below(folder, argv[++i]));
      }
    } else if (value_of({"-arch", "--gpu-architecture", "-gencode", "--generate-code", "-code", "--gpu-code",
                         "-o", "--output-file", "-MF", "-MT", "-MQ", "-x", "--x", "-t", "--threads",
                         "--options-file", "-optf", "--offload-arch", "--cuda-gpu-arch", "--rocm-path"},
                        false, value)) {
      for (std::size_t k = first; k <= i; ++k) result.ignored.push_back(argv[k]);
    } else if (value_of(
                   {"-ccbin", "--compiler-bindir", "-Xcompiler", "--compiler-options", "-Xcicc", "-Xcudafe"},
                   false, value)) {
      for (std::size_t k = first; k <= i; ++k) o.project.push_back(argv[k]);
    } else if (value_of({"-Xptxas", "--ptxas-options"}, false, value)) {
      o.project.push_back("--ptxas-options=" + value);
    } else if (a.starts_with("-diag-suppress") || a.starts_with("--diag-suppress") ||
               a.starts_with("--expt-") || a.starts_with("-expt-") || a.starts_with("--extended-lambda") ||
               a.starts_with("-extended-lambda") || a.starts_with("--fmad") || a.starts_with("-fmad") ||
               a.starts_with("--ftz") || a.starts_with("-ftz") || a.starts_with("--prec-") ||
               a.starts_with("-prec-") || a == "--restrict" || a == "-restrict" ||
               a.starts_with("--default-stream") || a == "-allow-unsupported-compiler" ||
               a == "--allow-unsupported-compiler" || a.starts_with("--extra-device-vectorization")) {
      if (a == "-diag-suppress" || a == "--diag-suppress") {
        if (i + 1 < argv.size()) o.project.push_back("--diag-suppress=" + argv[++i]);
      } else {
        o.project.push_back(a);
      }
    } else {
      result.ignored.push_back(a);
    }
  }
  return result;
}

fs::path find_compile_commands(const fs::path& source) {
  std::error_code ec;
  fs::path folder = fs::absolute(source, ec).lexically_normal().parent_path();
  for (int depth = 0; depth < 32 && !folder.empty(); ++depth, folder = folder.parent_path()) {
    if (const fs::path p = folder / "compile_commands.json"; fs::is_regular_file(p, ec)) return p;
    std::vector<fs::path> found;
    for (fs::directory_iterator it(folder, ec), end; !ec && it != end; it.increment(ec)) {
      const std::string name = it->path().filename().string();
      if (!name.starts_with("build") && !name.starts_with("cmake-build") && name != "out") continue;
      std::error_code one;
      if (const fs::path p = it->path() / "compile_commands.json"; fs::is_regular_file(p, one))
        found.push_back(p);
    }
    ec.clear();
    if (!found.empty()) return *std::min_element(found.begin(), found.end());
    if (folder == folder.root_path()) break;
    // A project's end: what lies above is somebody else's.
    if (fs::exists(folder / ".git", ec)) break;
  }
  return {};
}

Result<ProjectOptions> read_compile_commands(const fs::path& database, const fs::path& source) {
  KLAB_TRY(const std::string text, read_file(database, kMaxDatabase));
  KLAB_TRY(const Json json, parse_json(text, database.string(), kMaxDatabase));
  if (!json.is_array())
    return fail(ErrorCode::invalid_data, fmt::format("{} is not a list of commands", database.string()));
  std::error_code ec;
  const fs::path wanted = fs::weakly_canonical(source, ec);
  for (const Json& one : json) {
    if (!one.is_object() || !one.contains("file") || !one["file"].is_string()) continue;
    const fs::path folder = one.contains("directory") && one["directory"].is_string()
                                ? fs::path(one["directory"].get<std::string>())
                                : database.parent_path();
    const fs::path file = below(folder, one["file"].get<std::string>());
    if (file.filename() != wanted.filename() || fs::weakly_canonical(file, ec) != wanted) continue;
    std::vector<std::string> argv;
    if (one.contains("arguments") && one["arguments"].is_array()) {
      for (const Json& a : one["arguments"])
        if (a.is_string()) argv.push_back(a.get<std::string>());
    } else if (one.contains("command") && one["command"].is_string()) {
      argv = split_command(one["command"].get<std::string>());
    }
    if (argv.empty())
      return fail(ErrorCode::invalid_data,
                  fmt::format("{} has no command for {}", database.string(), file.string()));
    ProjectOptions options = options_of_command(argv, folder);
    options.database = database;
    return options;
  }
  return fail(ErrorCode::not_found, fmt::format("{} does not build {}", database.string(), source.string()),
              "give the options with -I, -D and --option");
}

}  // namespace klab::compile
