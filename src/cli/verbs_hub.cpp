// SPDX-License-Identifier: Apache-2.0
// hub: the process that stays warm between commands.
#include <fmt/format.h>

#include "cli/cli.h"
#include "hub/server.h"

namespace klab::cli {
namespace {

/// Only a hub that runs: asking how it is starts none.
Result<Json> ask_hub(const std::string& verb, const Json& arguments) {
  hub::Client client({.start = false});
  return client.call(verb, arguments);
}

int show_status(Cli& cli) {
  auto answer = ask_hub("hub.status", Json::object());
  if (!answer) {
    if (answer.error().code != ErrorCode::not_found) return cli.report(answer.error());
    if (cli.json)
      cli.print_json("hub status", {{"running", false}});
    else
      fmt::print("no hub runs; it starts by itself when there is work\n");
    return 0;
  }
  if (cli.json) {
    (*answer)["running"] = true;
    cli.print_json("hub status", std::move(*answer));
    return 0;
  }
  const Json& a = *answer;
  fmt::print("hub {} serves {}, up for {:.0f} s, {} at work\n", a["pid"].dump(), a["home"].get<std::string>(),
             a["up_s"].get<double>(), a["at_work"].dump());
  std::vector<std::vector<std::string>> rows{{"worker", "device", "state", "for", "requests", "doing"}};
  for (const Json& w : a["workers"])
    rows.push_back({w["pid"].dump(), w.value("device", ""), w.value("state", ""),
                    fmt::format("{:.0f} s", w.value("for_s", 0.0)), w["requests"].dump(),
                    w.value("doing", "")});
  if (rows.size() > 1) fmt::print("{}", table(rows, "rllr"));
  for (const Json& q : a["queue"])
    fmt::print("  {} at {}: {}\n",
               q.value("place", 0) == 0 ? "runs" : fmt::format("place {}", q.value("place", 0)),
               q.value("device", "").empty() ? "any device" : q.value("device", ""), q.value("what", ""));
  for (const Json& j : a["jobs"])
    fmt::print("  job {}: {} {}\n", j["job"].dump(), j.value("verb", ""), j["progress"].value("line", ""));
  return 0;
}

int stop_hub(Cli& cli, bool force) {
  auto answer = ask_hub("hub.stop", {{"force", force}});
  const bool ran = answer.has_value();
  if (!ran && answer.error().code != ErrorCode::not_found) return cli.report(answer.error());
  if (cli.json)
    cli.print_json("hub stop", {{"was_running", ran}});
  else
    fmt::print("{}\n", ran ? "the hub stops" : "no hub runs");
  return 0;
}

int run_hub(Cli& cli) {
  hub::ServeOptions options;
  if (const char* idle = std::getenv("KLAB_HUB_IDLE_S"); idle != nullptr && std::atof(idle) > 0)
    options.idle_s = std::atof(idle);
  auto served = hub::serve(options, cli.lab.cancelled);
  return served ? 0 : cli.report(served.error());
}

}  // namespace

void add_hub_verb(Cli& cli) {
  auto* hub = cli.verb("hub", "the process that keeps workers warm between commands", "klab hub status");
  hub->require_subcommand(1);
  auto* status = cli.verb("status", "workers, queue and jobs", "klab hub status", hub);
  cli.run_on(status, [&cli] { return show_status(cli); });
  auto force = std::make_shared<bool>(false);
  auto* stop = cli.verb("stop", "end it; it starts again by itself", "klab hub stop", hub);
  stop->add_flag("--force", *force, "also when it works: what runs is cancelled");
  cli.run_on(stop, [&cli, force] { return stop_hub(cli, *force); });
  auto* run = cli.verb("run", "", "klab hub run", hub);
  run->group("");  // started by clients, not by people
  cli.run_on(run, [&cli] { return run_hub(cli); });
}

}  // namespace klab::cli
