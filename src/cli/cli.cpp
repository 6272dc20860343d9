// SPDX-License-Identifier: Apache-2.0
#include "cli/cli.h"

#include <unistd.h>

#include <cstdio>

#include <fmt/format.h>

namespace klab::cli {

CLI::App* Cli::verb(const std::string& name, const std::string& purpose, const std::string& example,
                    CLI::App* parent) {
  CLI::App* sub = (parent != nullptr ? parent : &app)->add_subcommand(name, purpose);
  sub->footer("Example:\n  " + example);
  // Wherever a person puts them: `klab --json replay` and `klab replay --json`.
  sub->add_flag("--json", json, "one JSON object on stdout, for machines");
  sub->add_flag("-q,--quiet", quiet, "no progress on stderr");
  sub->add_flag("--no-hub", no_hub, "do the work inside this process");
  return sub;
}

void Cli::run_on(CLI::App* verb, std::function<int()> work) {
  verb->callback([this, work = std::move(work)] { action = work; });
}

void Cli::print_json(const std::string& verb, Json answer) const {
  Json whole{{"ok", true}, {"schema", 1}, {"verb", verb}};
  for (auto& [key, value] : answer.items()) whole[key] = std::move(value);
  fmt::print("{}\n", whole.dump(2, ' ', false, Json::error_handler_t::replace));
}

int Cli::report(const Error& error) const {
  const int code = exit_code(error.code);
  if (json) {
    Json whole{{"ok", false}, {"schema", 1}, {"exit_code", code}, {"error", error}};
    fmt::print("{}\n", whole.dump(2, ' ', false, Json::error_handler_t::replace));
  }
  const bool colour = colours(STDERR_FILENO);
  fmt::print(stderr, "{}klab: {}{}: {}\n", colour ? "\x1b[31m" : "", to_string(error.code),
             colour ? "\x1b[0m" : "", error.what);
  if (!error.hint.empty()) fmt::print(stderr, "  try: {}\n", error.hint);
  return code;
}

bool Cli::colours(int fd) const {
  if (colour == "always") return true;
  if (colour == "never") return false;
  const char* no = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return (no == nullptr || *no == '\0') && term != nullptr && std::string_view(term) != "dumb" &&
         ::isatty(fd) == 1;
}

namespace {
std::string painted(bool on, const char* code, const std::string& text) {
  return on ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
}
}  // namespace
std::string Cli::bold(const std::string& text) const { return painted(colours(STDOUT_FILENO), "1", text); }
std::string Cli::good(const std::string& text) const { return painted(colours(STDOUT_FILENO), "32", text); }
std::string Cli::bad(const std::string& text) const { return painted(colours(STDOUT_FILENO), "31", text); }
std::string Cli::warn(const std::string& text) const { return painted(colours(STDOUT_FILENO), "33", text); }

hub::Client& Cli::client() {
  const char* variable = std::getenv("KLAB_NO_HUB");
  const bool alone = no_hub || (variable != nullptr && *variable != '\0' && *variable != '0');
  if (!client_) client_ = std::make_unique<hub::Client>(hub::Client::Options{.alone = alone});
  return *client_;
}

Result<Json> Cli::call(const std::string& verb, const Json& arguments) {
  const auto progress = [this](const hub::Progress& p) {
    if (lab.progress) lab.progress(p.line, p.done, p.total);
  };
  return client().call(verb, arguments, progress, lab.cancelled);
}

Result<std::shared_ptr<void>> Cli::hold() {
  return client().hold([this](const hub::Progress& p) { lab.say(p.line); }, lab.cancelled);
}

std::string absolute_path(const std::string& path) {
  std::error_code ec;
  return path.empty() ? "" : fs::absolute(path, ec).string();
}

std::string variant_reference(const std::string& text) {
  std::error_code ec;
  return fs::is_regular_file(text, ec) ? absolute_path(text) : text;
}

std::string table(const std::vector<std::vector<std::string>>& rows, const std::string& right) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i >= widths.size()) widths.push_back(0);
      widths[i] = std::max(widths[i], row[i].size());
    }
  std::string text;
  for (const auto& row : rows) {
    std::string line = " ";
    for (std::size_t i = 0; i < row.size(); ++i) {
      const bool to_right = i < right.size() && right[i] == 'r';
      line +=
          ' ' +
          (to_right ? fmt::format("{:>{}}", row[i], widths[i]) : fmt::format("{:<{}}", row[i], widths[i])) +
          ' ';
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

std::string dimensions(const bundle::Dim3& d) {
  if (d[0] == 0) return "-";
  return d[2] > 1   ? fmt::format("{}x{}x{}", d[0], d[1], d[2])
         : d[1] > 1 ? fmt::format("{}x{}", d[0], d[1])
                    : fmt::format("{}", d[0]);
}

Result<std::vector<std::string>> program_of(const Cli& cli, const std::string& verb) {
  if (!cli.program.empty()) return cli.program;
  return fail(ErrorCode::usage, "no program given",
              fmt::format("put it after two dashes: klab {} ... -- ./program its arguments", verb));
}

}  // namespace klab::cli
