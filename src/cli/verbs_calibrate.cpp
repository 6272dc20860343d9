// SPDX-License-Identifier: Apache-2.0
// calibrate.
#include <fmt/format.h>

#include "base/units.h"
#include "cli/cli.h"
#include "ops/calibrate.h"

namespace klab::cli {
namespace {

using calibrate::Calibration, calibrate::Figure, calibrate::Kind;

struct CalibrateOptions {
  std::string device, api;
  bool show = false, force = false, all = false;
  double budget_s = 120;
};

std::string rate(double value, const std::string& unit) {
  if (unit == "ns") return format_ns(value);
  if (unit == "1/s") return fmt::format("{:.0f} /s", value);
  const std::string rest = unit.substr(1);  // "GB/s" without its G
  return value >= 1000 ? fmt::format("{:.2f} T{}", value / 1000, rest)
                       : fmt::format("{:.{}f} G{}", value, value >= 100 ? 0 : 1, rest);
}

std::string what(const Figure& f) {
  switch (f.kind) {
    case Kind::launch:
      return f.name == "empty_launch"      ? "empty launch, device time"
             : f.name == "launch_and_wait" ? "launch and wait, host time"
                                           : "launches back to back";
    case Kind::cache:
      return "last-level cache, read";
    case Kind::memory:
      return "memory, " + f.name;
    default:
      return (f.kind == Kind::matrix ? "matrix " : "vector ") + f.name;
  }
}

std::string way(const Figure& f) {
  std::string text = f.how;
  const auto add = [&](const std::string& more) {
    if (!more.empty()) text += (text.empty() ? "" : ", ") + more;
  };
  if (f.width != 0 && f.how.empty()) add(fmt::format("{} bytes an access", f.width));
  add(f.shape);
  if (f.kind != Kind::launch) add(f.config);
  if (f.clock_mhz) add(fmt::format("{:.0f} MHz", *f.clock_mhz));
  if (f.ceiling_only) add("a ceiling, no roof");
  return text;
}

void print(Cli& cli, const Calibration& c, bool all, const std::string& state) {
  fmt::print("{} ({}, driver {}): {}\n", cli.bold(c.device.name), c.device.api, c.device.driver_version, state);
  std::vector<std::vector<std::string>> rows{{"attained", "quartiles", "burst", "what", "how"}};
  for (const Figure& f : c.figures) {
    // One row for each roof; --all shows every way that was tried.
    if (!all && f.kind != Kind::launch && c.best(f.kind, f.name) != &f && !f.ceiling_only) continue;
    rows.push_back({rate(f.value, f.unit), fmt::format("{} .. {}", rate(f.q1, f.unit), rate(f.q3, f.unit)),
                    f.burst ? rate(*f.burst, f.unit) : "", what(f), way(f)});
  }
  fmt::print("{}", table(rows, "rrr"));
  for (const calibrate::Missing& m : c.missing) fmt::print("  not measured: {}: {}\n", m.name, m.why);
  for (const std::string& note : c.notes) fmt::print("  note: {}\n", note);
}

int show(Cli& cli, const CalibrateOptions& o) {
  auto answer = cli.call("calibrations", {{"api", o.api}, {"device", o.device}});
  if (!answer) return cli.report(answer.error());
  const Json& list = answer->at("calibrations");
  if (list.empty())
    return cli.report({ErrorCode::not_found,
                       o.api.empty() && o.device.empty() ? "no calibration is kept" : "no calibration of that device is kept",
                       "klab calibrate", 0});
  if (cli.json) {
    cli.print_json("calibrate", *answer);
    return 0;
  }
  for (const Json& one : list) {
    const auto c = decode_json<Calibration>(one, "calibration");
    if (!c) return cli.report(c.error());
    print(cli, *c, o.all,
          fmt::format("measured {}{}", calibrate::time_text(c->made_at),
                      one.value("expired", false) ? cli.warn(", not valid any more: klab calibrate") : ""));
  }
  return 0;
}

int run(Cli& cli, const CalibrateOptions& o) {
  if (o.show) return show(cli, o);
  auto answer = cli.call("calibrate",
                         {{"api", o.api}, {"device", o.device}, {"force", o.force}, {"budget_s", o.budget_s}});
  if (!answer) return cli.report(answer.error());
  if (cli.json) {
    cli.print_json("calibrate", *answer);
    return 0;
  }
  const auto c = decode_json<Calibration>(answer->at("calibration"), "calibration");
  if (!c) return cli.report(c.error());
  print(cli, *c, o.all,
        answer->value("cached", false) ? fmt::format("kept, measured {}", calibrate::time_text(c->made_at))
                                       : fmt::format("measured in {:.1f} s", c->took_s));
  return 0;
}

}  // namespace

void add_calibrate_verb(Cli& cli) {
  auto* verb = cli.verb("calibrate", "measure what a device attains: the roofs that runs are placed under",
                        "klab calibrate --api cuda");
  auto o = std::make_shared<CalibrateOptions>();
  verb->add_option("--device", o->device, "index, uuid or part of a name (see klab devices)");
  verb->add_option("--api", o->api, "cuda or vulkan; without it the first real GPU of any");
  verb->add_flag("--show", o->show, "only what is kept: measures nothing, starts no driver");
  verb->add_flag("--force", o->force, "measure although a valid calibration is kept (it is for 7 days)")
      ->excludes("--show");
  verb->add_flag("--all", o->all, "every figure, not only the best of each");
  verb->add_option("--budget", o->budget_s, "seconds that measuring may take")->check(CLI::Range(1.0, 3600.0));
  cli.run_on(verb, [&cli, o] { return run(cli, *o); });
}

}  // namespace klab::cli
