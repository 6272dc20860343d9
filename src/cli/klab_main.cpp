// SPDX-License-Identifier: Apache-2.0
// klab: the front end. It links no GPU driver and never loads one.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>

#include <fmt/format.h>

#include "cli/cli.h"

namespace {
std::atomic<int> interrupts{0};

void on_interrupt(int signal) {
  // The first one lets work stop cleanly; the second ends us as usual.
  if (interrupts.fetch_add(1) >= 1) {
    ::signal(signal, SIG_DFL);
    ::raise(signal);
  }
}
/// One line for each stage; on a terminal the steps of a stage are counted in place.
void show_progress(const std::string& line, std::uint64_t done, std::uint64_t total) {
  static std::string last;
  static bool open_line = false;
  const bool terminal = ::isatty(STDERR_FILENO) == 1;
  if (terminal && total > 0) {
    fmt::print(stderr, "\r\x1b[Kklab: {} ({}/{}){}", line, done, total, done >= total ? "\n" : "");
    open_line = done < total;
  } else if (line != last) {
    fmt::print(stderr, "{}klab: {}\n", open_line ? "\n" : "", line);
    open_line = false;
  }
  last = line;
  std::fflush(stderr);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace klab;
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);  // over `ulimit -f` a write fails and is reported; it does not end us

  cli::Cli cli;
  cli.lab.cancelled = [] { return interrupts.load() > 0; };
  // What follows "--" is the user's program: none of its arguments are ours.
  std::vector<std::string> ours;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--") {
      cli.program.assign(argv + i + 1, argv + argc);
      break;
    }
    ours.emplace_back(argv[i]);
  }
  std::reverse(ours.begin(), ours.end());

  cli.app.name("klab");
  cli.app.require_subcommand(1);
  cli.app.set_version_flag("--version", "klab " KLAB_VERSION);
  cli.app.add_flag("--json", cli.json, "one JSON object on stdout, for machines");
  cli.app.add_flag("-q,--quiet", cli.quiet, "no progress on stderr");
  cli.app.add_flag("--no-hub", cli.no_hub, "do the work inside this process, not in the hub that stays warm");
  cli.app.add_option("--color", cli.colour, "auto, always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  cli.app.footer(
      "Exit codes: 0 done, 1 failed, 2 usage, 3 output differs or not verified, 4 slower,\n"
      "5 inconclusive, unstable or clock-dependent, 6 environment, 7 build failed,\n"
      "8 replay crashed or ran out of time, 9 target program or capture failed, 10 a cap was reached,\n"
      "70 a bug of ours, 130 interrupted.");
  cli::add_listing_verbs(cli);
  cli::add_capture_verbs(cli);
  cli::add_source_verbs(cli);
  cli::add_run_verbs(cli);
  cli::add_report_verb(cli);
  cli::add_session_verbs(cli);
  cli::add_calibrate_verb(cli);
  cli::add_mcp_verb(cli);
  cli::add_serve_verb(cli);
  cli::add_hub_verb(cli);
  try {
    cli.app.parse(ours);
  } catch (const CLI::CallForHelp& e) {
    return cli.app.exit(e);
  } catch (const CLI::CallForAllHelp& e) {
    return cli.app.exit(e);
  } catch (const CLI::CallForVersion& e) {
    return cli.app.exit(e);
  } catch (const CLI::ParseError& e) {
    const auto verbs = cli.app.get_subcommands();
    return cli.report({ErrorCode::usage, e.what(),
                       fmt::format("klab {}--help", verbs.empty() ? "" : verbs[0]->get_name() + " "), 0});
  }
  if (!cli.action) return cli.report({ErrorCode::usage, "no such verb", "klab --help", 0});
  const bool show = !cli.quiet && (::isatty(STDERR_FILENO) == 1 || !cli.json);
  if (show) cli.lab.progress = show_progress;
  try {
    return cli.action();
  } catch (const std::exception& e) {
    return cli.report(
        {ErrorCode::internal, e.what(), "this is a bug of klab: please report it with the command line", 0});
  }
}
