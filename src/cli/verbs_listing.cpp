// SPDX-License-Identifier: Apache-2.0
// devices, doctor, dispatches, completions.
#include <fmt/format.h>

#include <regex>

#include "base/units.h"
#include "cli/cli.h"
#include "ops/capture.h"
#include "ops/doctor.h"
#include "ops/run.h"

namespace klab::cli {
namespace {

int show_devices(Cli& cli) {
  auto answer = cli.call("devices", Json::object());
  if (!answer) return cli.report(answer.error());
  const Json devices = answer->at("devices");
  bool any = false;
  std::optional<Error> first_error;
  for (const Json& one : devices) {
    any = any || !one.contains("error");
    if (one.contains("error") && !first_error) first_error = one["error"].get<Error>();
  }
  if (!any)
    return cli.report(first_error.value_or(
        Error{ErrorCode::no_device, "no device of any API was found", "klab doctor", 0}));
  if (cli.json) {
    cli.print_json("devices", {{"devices", devices}});
    return 0;
  }
  std::vector<std::vector<std::string>> rows{{"api", "device", "driver", "type", "addresses kept by"}};
  for (const Json& one : devices) {
    if (one.contains("error")) continue;
    const Json &identity = one.at("identity"), &abilities = one.at("abilities");
    const std::string by = abilities.value("fixed_addresses_by", "");
    rows.push_back({identity.value("api", ""), identity.value("name", ""),
                    identity.value("driver_version", ""), identity.value("type", ""),
                    by.empty() ? "relocation" : by});
  }
  fmt::print("{}", table(rows, ""));
  for (const Json& one : devices)
    if (one.contains("error"))
      fmt::print("  {}: {}\n", one.value("api", "?"), one["error"].value("what", ""));
  return 0;
}

int show_doctor(Cli& cli) {
  const auto checks = ops::examine(cli.lab);
  bool missing = false;
  for (const ops::Check& check : checks) missing = missing || check.health == ops::Health::missing;
  if (cli.json) {
    cli.print_json("doctor", {{"checks", checks}, {"usable", !missing}});
  } else {
    for (const ops::Check& check : checks) {
      const std::string mark = check.health == ops::Health::ok        ? cli.good("ok     ")
                               : check.health == ops::Health::warning ? cli.warn("note   ")
                                                                      : cli.bad("missing");
      fmt::print("  {}  {}: {}\n", mark, check.name, check.found);
      if (!check.fix.empty()) fmt::print("           {}\n", check.fix);
    }
  }
  return missing ? exit_code(ErrorCode::environment) : 0;
}

struct DispatchOptions {
  std::string from, kernel, out;
  bool rows = false;
  std::size_t limit = 40;
  double limit_s = 600;
};

int show_dispatches(Cli& cli, const DispatchOptions& o) {
  import::DispatchList list;
  fs::path file = o.from;
  if (!o.from.empty()) {
    auto read = import::read_list(o.from);
    if (!read) return cli.report(read.error());
    list = std::move(*read);
  } else {
    auto program = program_of(cli, "dispatches");
    if (!program) return cli.report(program.error());
    capture::Target target{.argv = *program};
    target.limit = std::chrono::milliseconds(static_cast<long>(o.limit_s * 1000));
    auto traced = [&]() -> Result<ops::Traced> {
      KLAB_TRY(const auto held, cli.hold());
      return ops::trace_dispatches(cli.lab, target, o.out);
    }();
    if (!traced) return cli.report(traced.error());
    list = std::move(traced->list);
    file = traced->file;
  }
  std::vector<bool> wanted(list.kernels.size(), true);
  if (!o.kernel.empty()) {
    try {
      const std::regex pattern(o.kernel, std::regex::extended);
      for (std::size_t i = 0; i < wanted.size(); ++i)
        wanted[i] =
            std::regex_search(list.kernels[i].name, pattern) || list.kernels[i].hash.rfind(o.kernel, 0) == 0;
    } catch (const std::regex_error& e) {
      return cli.report({ErrorCode::usage, fmt::format("--kernel {}: {}", o.kernel, e.what()),
                         "it is a POSIX extended regular expression", 0});
    }
  }
  if (cli.json) {
    cli.print_json("dispatches", ops::dispatches_json(list, file, o.rows, wanted));
    return 0;
  }
  const auto summaries = import::summarise(list);
  fmt::print("{} dispatches of {} kernels: {}{}{}\n", list.rows.size(), list.kernels.size(), list.source,
             list.device.name.empty() ? "" : " on " + list.device.name,
             list.exit_code != 0 ? fmt::format(" (it exited with {})", list.exit_code) : "");
  std::vector<std::vector<std::string>> cells;
  std::size_t more = 0;
  if (o.rows) {
    cells.push_back({"#", "nth", "GPU time", "grid", "block", "kernel", "call"});
    for (const import::Row& r : list.rows) {
      if (r.kernel >= wanted.size() || !wanted[r.kernel]) continue;
      if (cells.size() > o.limit)
        ++more;
      else
        cells.push_back({std::to_string(r.sequence), std::to_string(r.nth),
                         r.gpu_ns > 0 ? format_ns(r.gpu_ns) : "-", dimensions(r.grid),
                         dimensions(r.block[0] != 0 ? r.block : list.kernels[r.kernel].block),
                         list.kernels[r.kernel].name, r.call});
    }
    fmt::print("{}", table(cells, "rrrrr"));
  } else {
    std::vector<bundle::Dim3> grids(list.kernels.size(), {0, 0, 0});
    for (const import::Row& r : list.rows)
      if (r.kernel < grids.size()) grids[r.kernel] = r.grid;
    cells.push_back({"total", "share", "calls", "median", "last grid", "block", "kernel", ""});
    for (const import::Summary& s : summaries) {
      if (!wanted[s.kernel]) continue;
      const import::Kernel& k = list.kernels[s.kernel];
      if (cells.size() > o.limit)
        ++more;
      else
        cells.push_back({format_ns(s.total_ns), fmt::format("{:.1f} %", s.share * 100),
                         std::to_string(s.calls), format_ns(s.median_ns), dimensions(grids[s.kernel]),
                         dimensions(k.block), k.name,
                         k.refusal.empty() ? "" : "cannot be captured: " + k.refusal});
    }
    fmt::print("{}", table(cells, "rrrrrr"));
  }
  if (more > 0) fmt::print("  ... {} more: --limit\n", more);
  for (const std::string& w : list.warnings) fmt::print("  note: {}\n", w);
  fmt::print("kept in {}\n", file.string());
  if (!list.rows.empty() && !cli.program.empty())
    fmt::print("next: klab capture --kernel '{}' -o NAME.klab -- {}\n",
               list.kernels[summaries.front().kernel].name, fmt::join(cli.program, " "));
  return 0;
}

/// Shell completion from the verbs and options that the parser itself has.
int print_completions(Cli& cli, const std::string& shell) {
  std::string verbs, cases;
  for (const CLI::App* sub : cli.app.get_subcommands([](const CLI::App*) { return true; })) {
    verbs += sub->get_name() + " ";
    std::string words;
    for (const CLI::App* inner : sub->get_subcommands([](const CLI::App*) { return true; }))
      words += inner->get_name() + " ";
    for (const CLI::Option* option : sub->get_options())
      for (const std::string& name : option->get_lnames()) words += "--" + name + " ";
    cases += fmt::format("    {}) words=\"{}\" ;;\n", sub->get_name(), words);
  }
  const std::string body =
      fmt::format("  case \"$verb\" in\n{}    *) words=\"{}\" ;;\n  esac\n", cases, verbs);
  if (shell == "bash") {
    fmt::print(
        "_klab() {{\n  local cur=${{COMP_WORDS[COMP_CWORD]}} verb=${{COMP_WORDS[1]}} words\n"
        "  [ \"$COMP_CWORD\" -eq 1 ] && verb=\n{}"
        "  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\") $(compgen -f -- \"$cur\"))\n}}\ncomplete -o "
        "filenames -F _klab klab\n",
        body);
  } else if (shell == "zsh") {
    fmt::print(
        "#compdef klab\n_klab() {{\n  local verb=$words[2] w=$words words\n  [ \"$CURRENT\" -eq 2 ] && "
        "verb=\n{}"
        "  compadd -- ${{=words}}\n  _files\n}}\ncompdef _klab klab\n",
        body);
  } else {
    for (const CLI::App* sub : cli.app.get_subcommands([](const CLI::App*) { return true; })) {
      fmt::print("complete -c klab -n __fish_use_subcommand -a {} -d '{}'\n", sub->get_name(),
                 sub->get_description());
      for (const CLI::Option* option : sub->get_options())
        for (const std::string& name : option->get_lnames())
          fmt::print("complete -c klab -n '__fish_seen_subcommand_from {}' -l {}\n", sub->get_name(), name);
    }
  }
  return 0;
}

}  // namespace

void add_listing_verbs(Cli& cli) {
  auto* devices = cli.verb("devices", "GPUs that klab can replay on", "klab devices");
  cli.run_on(devices, [&cli] { return show_devices(cli); });

  auto* doctor =
      cli.verb("doctor", "what this machine has and lacks, and the package that brings it", "klab doctor");
  cli.run_on(doctor, [&cli] { return show_doctor(cli); });

  auto options = std::make_shared<DispatchOptions>();
  auto* dispatches = cli.verb("dispatches", "run a program and list its dispatches by GPU time",
                              "klab dispatches -- ./program --size 1024");
  dispatches->add_option("--from", options->from, "read a list that was kept, in place of running a program");
  dispatches->add_option("--kernel", options->kernel,
                         "only kernels whose name matches this regular expression, or a hash");
  dispatches->add_flag("--rows", options->rows, "every dispatch, not one line a kernel");
  dispatches->add_option("--limit", options->limit, "lines to print")->capture_default_str();
  dispatches->add_option("--out", options->out, "where to keep the list (default: in the data folder)");
  dispatches->add_option("--time-limit", options->limit_s, "seconds after which the program is ended")
      ->capture_default_str();
  cli.run_on(dispatches, [&cli, options] { return show_dispatches(cli, *options); });

  auto shell = std::make_shared<std::string>("bash");
  auto* completions = cli.verb("completions", "a completion script for your shell",
                               "klab completions bash > /etc/bash_completion.d/klab");
  completions->add_option("shell", *shell, "bash, zsh or fish")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}))
      ->capture_default_str();
  cli.run_on(completions, [&cli, shell] { return print_completions(cli, *shell); });
}

}  // namespace klab::cli
