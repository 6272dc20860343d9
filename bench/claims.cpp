// SPDX-License-Identifier: Apache-2.0
// Compares the same two variants many times in one warm worker, and prints what was claimed: one JSON line for each try.
// With `--same` B is A's own code and every difference that is claimed is false. bench/claims.py and tests/hw use it.
#include <cstdio>
#include <fstream>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "measure/comparison.h"
#include "replay/worker.h"

using namespace klab;

int main(int argc, char** argv) {
  CLI::App app("klab compare, many times: how often is it wrong, how often does it find what is there");
  std::string bundle, code, reference, device, floors_file, cache;
  bool same = false;
  int tries = 20;
  double budget = 10;
  std::uint32_t seed = 1, dispatch = 0;
  app.add_option("bundle", bundle, "NAME.klab")->required();
  app.add_option("--code", code, "B's code object");
  app.add_option("--reference", reference, "A's code object (default: the captured one)");
  app.add_flag("--same", same, "B is A's own code, with the rule of identity off");
  app.add_option("--tries", tries)->capture_default_str();
  app.add_option("--budget", budget, "seconds of each")->capture_default_str();
  app.add_option("--seed", seed, "of the first try")->capture_default_str();
  app.add_option("--dispatch", dispatch);
  app.add_option("--device", device);
  app.add_option("--cache", cache, "cold or warm")->check(CLI::IsMember({"cold", "warm"}));
  app.add_option("--floors", floors_file, "where floors are kept between calls");
  CLI11_PARSE(app, argc, argv);
  if (same == !code.empty()) return std::fprintf(stderr, "claims: --same or --code\n"), 2;

  replay::Worker worker;
  std::map<std::string, replay::Comparing::Floor> floors;
  if (std::ifstream in(floors_file); !floors_file.empty() && in) {
    const auto kept = decode_json<decltype(floors)>(Json::parse(in, nullptr, false), "floors");
    if (kept) floors = *kept;
  }
  int failed = 0;
  for (int i = 0; i < tries; ++i) {
    replay::Request r{.verb = "compare", .bundle = bundle, .dispatch = dispatch, .device = device};
    r.variants = {{.label = "A", .code = reference}, {.label = "B", .code = same ? reference : code}};
    r.validate = !same && i == 0;  // what is timed is right; once is enough
    r.seed = seed + static_cast<std::uint32_t>(i);
    if (cache == "warm") r.conditions.cache = replay::CacheState::warm;
    r.comparing = {.measure_s = budget, .identity = false, .floors = floors};
    const auto start = std::chrono::steady_clock::now();
    const auto answer = worker.ask(r);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    auto comparison = answer && answer->comparison.is_object()
                          ? decode_json<measure::Comparison>(answer->comparison, "comparison")
                          : Result<measure::Comparison>(fail(ErrorCode::internal, "not timed"));
    if (!comparison) {
      const Error error = !answer ? answer.error() : answer->error.value_or(comparison.error());
      fmt::print("{}\n", Json{{"try", i}, {"error", error.what}}.dump());
      if (++failed > 3) return 1;
      continue;
    }
    const Json& all = answer->comparison;
    const Json& floor = all["floor"];
    if (floor.value("measured", false))
      floors[floor.value("key", "")] = {floor.value("value", 0.0), floor.value("budget_s", 0.0), "this run"};
    if (!floors_file.empty()) std::ofstream(floors_file) << Json(floors);
    const measure::Conclusion& c = comparison->conclusion;
    fmt::print("{}\n", Json{{"try", i},
                            {"verdict", c.verdict},
                            {"ratio", c.interval.ratio},
                            {"low", c.interval.low},
                            {"high", c.interval.high},
                            {"alpha", c.interval.alpha},
                            {"from", c.interval.from},
                            {"floor", comparison->design.floor},
                            {"delta", comparison->design.delta()},
                            {"placements", c.placements},
                            {"blocks", c.blocks},
                            {"dropped", c.dropped},
                            {"launches_per_letter", all.value("launches_per_letter", 0)},
                            {"median_ns", answer->variants.at(0).samples_ns.empty()
                                              ? 0.0
                                              : measure::grouped_median(answer->variants[0].samples_ns, 0)},
                            {"timer_step_ns", all.value("timer_step_ns", 0.0)},
                            {"cycles", c.cycles ? Json(c.cycles->ratio) : Json()},
                            {"warm_up", all["warm_up"]},
                            {"spent_s", all["spent_s"]},
                            {"floor_interval", floor.contains("interval") ? floor["interval"] : Json()},
                            {"seconds", seconds}}
                           .dump());
    std::fflush(stdout);
  }
  return 0;
}
