// SPDX-License-Identifier: Apache-2.0
#include "ops/settings.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include <fmt/format.h>

#include "base/units.h"
#include "validate/element.h"

namespace klab::ops {
namespace {

constexpr std::size_t kLargest = 1u << 20;
constexpr char kHint[] = "docs/klab-toml.md lists what it may hold";

class Reader {
 public:
  Reader(const fs::path& file) : file_(file) {}

  tl::unexpected<Error> wrong(const toml::node& node, std::string_view key, std::string_view why) const {
    return fail(ErrorCode::invalid_data, fmt::format("{}:{}: {}: {}", file_.string(), node.source().begin.line, key, why),
                kHint);
  }
  Result<std::string> text(const toml::node& node, std::string_view key) const {
    const auto value = node.value_exact<std::string>();
    if (!value) return wrong(node, key, "a string in quotes is wanted");
    if (value->find('\0') != std::string::npos) return wrong(node, key, "has a NUL in it");
    return *value;
  }
  Result<std::vector<std::string>> texts(const toml::node& node, std::string_view key) const {
    const toml::array* array = node.as_array();
    if (array == nullptr) return wrong(node, key, "a list of strings is wanted");
    std::vector<std::string> list;
    for (const toml::node& one : *array) {
      KLAB_TRY(std::string value, text(one, key));
      list.push_back(std::move(value));
    }
    return list;
  }
  /// Below the file's folder when relative.
  std::string absolute(const std::string& path) const {
    const fs::path full = (file_.parent_path() / path).lexically_normal();
    return (full.has_filename() || full == full.root_path() ? full : full.parent_path()).string();
  }
  Result<std::vector<std::string>> folders(const toml::node& node, std::string_view key) const {
    KLAB_TRY(std::vector<std::string> list, texts(node, key));
    for (std::string& one : list) {
      if (one.empty()) return wrong(node, key, "an empty path");
      one = absolute(one);
    }
    return list;
  }
  Result<std::int64_t> whole(const toml::node& node, std::string_view key, std::int64_t least, std::int64_t most) const {
    const auto value = node.value_exact<std::int64_t>();
    if (!value || *value < least || *value > most)
      return wrong(node, key, fmt::format("a whole number from {} to {} is wanted", least, most));
    return *value;
  }
  Result<double> number(const toml::node& node, std::string_view key, double least, double most) const {
    const auto value = node.is_number() ? node.value<double>() : std::nullopt;
    if (!value || !(*value >= least && *value <= most))
      return wrong(node, key, fmt::format("a number from {} to {} is wanted", least, most));
    return *value;
  }
  Result<std::uint64_t> bytes(const toml::node& node, std::string_view key) const {
    constexpr std::uint64_t least = 4096, most = 1ull << 40;
    std::uint64_t value = 0;
    if (const auto n = node.value_exact<std::int64_t>()) {
      value = *n > 0 ? static_cast<std::uint64_t>(*n) : 0;
    } else if (const auto t = node.value_exact<std::string>(); !t || !parse_bytes(*t, value)) {
      return wrong(node, key, "a size is wanted: 67108864 or \"64MiB\"");
    }
    if (value < least || value > most) return wrong(node, key, "from 4096 bytes to 1 TiB");
    return value;
  }

  Result<ProgramSettings> program(const toml::node& node, const std::string& name) const {
    const toml::table* table = node.as_table();
    if (table == nullptr) return wrong(node, "programs." + name, "a table is wanted: [programs." + name + "]");
    ProgramSettings p;
    p.working_folder = absolute(".");
    for (const auto& [k, value] : *table) {
      const std::string key(k.str()), full = fmt::format("programs.{}.{}", name, key);
      if (key == "command") {
        KLAB_TRY(p.argv, texts(value, full));
        if (p.argv.empty() || p.argv[0].empty()) return wrong(value, full, "names no program");
      } else if (key == "working_folder") {
        KLAB_TRY(const std::string folder, text(value, full));
        p.working_folder = absolute(folder);
      } else if (key == "environment") {
        const toml::table* variables = value.as_table();
        if (variables == nullptr) return wrong(value, full, "a table of strings is wanted: { NAME = \"value\" }");
        for (const auto& [v, content] : *variables) {
          KLAB_TRY(p.environment[std::string(v.str())], text(content, full));
        }
      } else {
        return wrong(value, full, "there is no such setting (command, working_folder, environment)");
      }
    }
    if (p.argv.empty()) return wrong(node, "programs." + name, "has no command");
    return p;
  }

 private:
  const fs::path& file_;
};

}  // namespace

void to_json(Json& j, const Settings& v) {
  j = Json{{"max_runs", v.max_runs}, {"worker_budget_s", v.worker_budget_s}, {"job_log_bytes", v.job_log_bytes}};
  if (!v.allow_save.empty()) j["allow_save"] = v.allow_save;
  if (!v.file.empty()) j["file"] = v.file;
  if (!v.checkers.empty()) j["checkers"] = v.checkers;
  if (!v.types.empty()) j["types"] = v.types;
}

void from_json(const Json& j, Settings& v) {
  read_optional(j, "max_runs", v.max_runs);
  read_optional(j, "worker_budget_s", v.worker_budget_s);
  read_optional(j, "job_log_bytes", v.job_log_bytes);
  read_optional(j, "allow_save", v.allow_save);
  read_optional(j, "file", v.file);
  read_optional(j, "checkers", v.checkers);
  read_optional(j, "types", v.types);
}

Result<Settings> parse_settings(std::string_view text, const fs::path& file) {
  const toml::parse_result parsed = toml::parse(text, file.string());
  if (!parsed)
    return fail(ErrorCode::invalid_data,
                fmt::format("{}:{}: {}", file.string(), parsed.error().source().begin.line,
                            std::string_view(parsed.error().description())),
                kHint);
  const Reader reader(file);
  Settings s;
  s.file = file.string();
  for (const auto& [k, value] : parsed.table()) {
    const std::string key(k.str());
    if (key == "max_runs") {
      KLAB_TRY(s.max_runs, reader.whole(value, key, 1, 1'000'000));
    } else if (key == "worker_budget_s") {
      KLAB_TRY(s.worker_budget_s, reader.number(value, key, 1, 86'400));
    } else if (key == "job_log_bytes") {
      KLAB_TRY(s.job_log_bytes, reader.bytes(value, key));
    } else if (key == "roots") {
      KLAB_TRY(s.roots, reader.folders(value, key));
    } else if (key == "allow_save") {
      KLAB_TRY(s.allow_save, reader.folders(value, key));
    } else if (key == "programs") {
      const toml::table* programs = value.as_table();
      if (programs == nullptr) return reader.wrong(value, key, "tables are wanted: [programs.NAME]");
      for (const auto& [name, program] : *programs) {
        KLAB_TRY(s.programs[std::string(name.str())], reader.program(program, std::string(name.str())));
      }
    } else if (key == "checkers") {
      const toml::table* checkers = value.as_table();
      if (checkers == nullptr) return reader.wrong(value, key, "a table is wanted: NAME = [\"./check.py\"]");
      for (const auto& [name, command] : *checkers) {
        auto& argv = s.checkers[std::string(name.str())];
        KLAB_TRY(argv, reader.texts(command, key));
        if (argv.empty() || argv[0].empty()) return reader.wrong(command, key, "names no program");
        if (argv[0].find('/') != std::string::npos) argv[0] = reader.absolute(argv[0]);
      }
    } else if (key == "types") {
      const toml::table* kernels = value.as_table();
      if (kernels == nullptr) return reader.wrong(value, key, "tables are wanted: [types.KERNEL]");
      for (const auto& [kernel, regions] : *kernels) {
        const toml::table* table = regions.as_table();
        if (table == nullptr) return reader.wrong(regions, key, "a table is wanted: [types.KERNEL]");
        for (const auto& [region, type] : *table) {
          KLAB_TRY(const std::string given, reader.text(type, key));
          if (const auto parsed = validate::parse_type(given); !parsed)
            return reader.wrong(type, key, parsed.error().what);
          s.types[std::string(kernel.str())][std::string(region.str())] = given;
        }
      }
    } else {
      return reader.wrong(value, key,
                          "there is no such setting (max_runs, worker_budget_s, job_log_bytes, roots, allow_save, "
                          "programs, checkers, types)");
    }
  }
  return s;
}

Result<Settings> read_settings(const fs::path& folder) {
  std::error_code ec;
  fs::path at = fs::weakly_canonical(folder, ec);
  if (ec) at = fs::absolute(folder);
  for (;; at = at.parent_path()) {
    const fs::path file = at / "klab.toml";
    Fd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (fd) {
      struct stat st {};
      if (::fstat(fd.get(), &st) != 0) return fail_errno(errno, file.string());
      const auto refused = [&](std::string_view why, std::string_view hint) {
        return fail(ErrorCode::not_allowed, fmt::format("{}: {}: it could make klab run a program for somebody else",
                                                        file.string(), why),
                    std::string(hint));
      };
      if (!S_ISREG(st.st_mode)) return refused("it is not a regular file", "replace it by one");
      if (st.st_uid != ::geteuid()) return refused("it belongs to another user", "copy it: what you own is read");
      if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return refused("others may write it", fmt::format("chmod go-w {}", file.string()));
      KLAB_TRY(const std::string text, read_file(fmt::format("/proc/self/fd/{}", fd.get()), kLargest));
      return parse_settings(text, file);
    }
    if (errno != ENOENT && errno != ENOTDIR && errno != EACCES) return fail_errno(errno, file.string());
    if (at == at.root_path() || at.empty()) return Settings{};
  }
}

}  // namespace klab::ops
