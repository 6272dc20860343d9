// SPDX-License-Identifier: Apache-2.0
// replay, compare.
#include <fmt/format.h>

#include "base/units.h"
#include "cli/cli.h"
#include "ops/requests.h"
#include "ops/settings.h"

namespace klab::cli {

namespace {

struct RunOptions {
  std::string bundle, session, variant = "baseline", against = "baseline", condition = "isolated", cache,
                               memory, device;
  std::uint32_t dispatch = 0, iterations = 20, repeats = 5;
  std::uint64_t flush_mb = 0;
  double budget_s = 600, measure_s = 10, margin = 0.005;
  bool no_validate = false, counters = false, cached = false;
  std::vector<std::string> counter_names, variants;  // variants: of compare
  ops::LaunchText launch;
  ops::CheckText checks;
  ops::WorkText work;
  std::vector<std::string> unseen;
};

Result<replay::Conditions> conditions_of(const RunOptions& o) {
  replay::Conditions c{
      .iterations = o.iterations, .repeats = o.repeats, .memory = o.memory, .flush_mb = o.flush_mb};
  from_string(o.condition, c.mode);
  if (c.mode == replay::Mode::sustained && !o.cache.empty() && o.cache != "warm")
    return fail(ErrorCode::usage,
                fmt::format("launches back to back leave the cache warm: --condition sustained has no {} cache", o.cache),
                "--cache warm, or --condition isolated");
  if (!o.cache.empty())
    from_string(o.cache, c.cache);
  else if (c.mode == replay::Mode::sustained)
    c.cache = replay::CacheState::warm;
  return c;
}

/// What was asked of validation, with the element types of a project's klab.toml.
Result<Json> checks_of(const RunOptions& o) {
  ops::CheckText checks = o.checks;
  for (const std::string& one : o.unseen) {
    KLAB_TRY(auto launch, ops::parse_launch_words(one));
    checks.unseen.push_back(std::move(launch));
  }
  if (!checks.checker.empty() && o.session.empty()) {
    // The hub may have been started in another folder.
    std::string& program = checks.checker[0];
    if (program.find('/') != std::string::npos) program = absolute_path(program);
  }
  for (std::string& one : checks.references)
    if (const auto at = one.find('='); at != std::string::npos && o.session.empty())
      one = one.substr(0, at + 1) + absolute_path(one.substr(at + 1));
  if (o.session.empty()) {
    if (const auto settings = ops::read_settings(fs::current_path())) checks.type_defaults = settings->types;
  }
  return ops::check_arguments(checks);
}

/// Which capture: a bundle, or the session that has it.
Json place_of(const RunOptions& o) {
  return o.session.empty() ? Json{{"bundle", absolute_path(o.bundle)}} : Json{{"session", o.session}};
}

std::string conditions_line(const replay::Conditions& c) {
  std::string text =
      fmt::format("{}, {} iterations, cache {}", to_string(c.mode), c.iterations, to_string(c.cache));
  if (c.mode == replay::Mode::repeats) text += fmt::format(", {} replays with fresh allocations", c.repeats);
  if (!c.memory.empty()) text += ", memory " + c.memory;
  if (c.flush_mb != 0) text += fmt::format(", {} MiB flushed before each launch", c.flush_mb);
  return text;
}

/// How far floating-point elements are apart.
void print_values(const validate::ValueStats& v) {
  if (v.different == 0) return;
  std::string histogram;
  for (std::size_t i = 1; i < v.ulps.size(); ++i)
    if (v.ulps[i] != 0)
      histogram += fmt::format("{}{}: {}", histogram.empty() ? "" : ", ", validate::ulp_bucket_name(i), v.ulps[i]);
  fmt::print("    {} of {} floating-point elements differ; ULPs apart: {}\n", v.different, v.elements, histogram);
}

/// Where a region differs: one character for a cell of its elements, darker for more of them.
void print_map(const Json& map) {
  if (!map.is_object() || !map.contains("shares")) return;
  static const char* const kShades[] = {"\u00b7", "\u2591", "\u2592", "\u2593", "\u2588"};
  const std::size_t rows = map.value("rows", 0u), columns = map.value("columns", 0u);
  const Json& shares = map["shares"];
  if (columns < 2 || shares.size() != rows * columns) return;
  for (std::size_t r = 0; r < rows; ++r) {
    std::string line;
    for (std::size_t c = 0; c < columns; ++c) {
      const int share = shares[r * columns + c].get<int>();
      line += kShades[share == 0 ? 0 : 1 + std::min(3, share * 4 / 1001)];
    }
    fmt::print("      |{}|\n", line);
  }
}

void print_validation(const Cli& cli, const replay::Validation& v) {
  using validate::Correctness;
  const std::string word = to_string(v.correctness);
  fmt::print("  {}: {}\n",
             v.correctness == Correctness::correct        ? cli.good(word)
             : v.correctness == Correctness::not_verified ? cli.warn(word)
                                                          : cli.bad(word),
             v.reason);
  for (const replay::RegionDifference& d : v.differences) {
    const bool typed = !d.type.empty();
    fmt::print("    region {}{}: {} bytes differ, first at offset {}{}: expected {}, got {}\n", d.region,
               d.name.empty() ? "" : " (" + d.name + ")", d.differing_bytes, d.first_offset,
               typed ? fmt::format(", {} element {}", d.type, d.index) : "",
               typed ? fmt::format("{} ({})", d.expected_value, d.expected) : d.expected,
               typed ? fmt::format("{} ({})", d.actual_value, d.actual) : d.actual);
    print_values(d.values);
    print_map(d.map);
  }
  if (v.level == "numeric")
    for (const Json& t : v.tolerances)
      fmt::print("    region {}, {}: absolute {:.3g}, relative {:.3g}\n", t.value("region", 0u), t.value("type", ""),
                 t.value("absolute", 0.0), t.value("relative", 0.0));
  if (v.differences.empty() && v.values.different != 0) print_values(v.values);
  for (const replay::InputTried& i : v.inputs)
    if (!i.agrees && i.kind != "captured") fmt::print("    {} input, {}: {}\n", i.kind, i.what, i.result);
}

std::vector<std::string> counters_of(const RunOptions& o) {
  std::vector<std::string> names = o.counter_names;
  if (o.counters) names.insert(names.begin(), "default");
  return names;
}

void print_counters(const Json& counters) {
  if (counters.is_null()) return;
  fmt::print("  hardware counters, in {} passes of their own:\n", counters.value("passes", 0));
  const Json& derived = counters["derived"];
  for (const auto& [name, d] : derived.items())
    if (d["value"].is_number())
      fmt::print("    {:<22} {:.6g} {}\n", name, d["value"].get<double>(), d.value("unit", ""));
  if (derived.contains("stalled_warps_per_issue")) {
    std::vector<std::pair<double, std::string>> stalls;
    for (const auto& [reason, warps] : derived["stalled_warps_per_issue"]["value"].items())
      if (reason != "selected") stalls.emplace_back(warps.get<double>(), reason);
    std::sort(stalls.rbegin(), stalls.rend());
    std::string text;
    for (std::size_t i = 0; i < stalls.size() && i < 4; ++i)
      text += fmt::format("{}{} {:.2f}", i == 0 ? "" : ", ", stalls[i].second, stalls[i].first);
    fmt::print("    {:<22} {} (warps waiting for each issue)\n", "stalled on", text);
  }
  if (!counters["missing"].empty()) fmt::print("    not on this device: {}\n", counters["missing"].dump());
}

/// "84.1 % of the speed of light: 3.85 TB/s of 4.58 (memory, 33 % written)".
void print_roofline(const Cli& cli, const char* what, const Json& r) {
  if (!r.is_object()) return;
  if (r.contains("why")) {
    fmt::print("  {}speed of light: not shown, {}\n", what, r.value("why", ""));
    return;
  }
  std::string text;
  if (r.contains("achieved_gbs"))
    text += fmt::format("{:.4g} GB/s", r.value("achieved_gbs", 0.0)) +
            (r.contains("memory_roof_gbs") ? fmt::format(" of {:.4g} ({})", r.value("memory_roof_gbs", 0.0), r.value("memory_roof", "")) : "");
  if (r.contains("achieved_gflops"))
    text += (text.empty() ? "" : "; ") + fmt::format("{:.4g} GFLOP/s", r.value("achieved_gflops", 0.0)) +
            (r.contains("compute_roof_gflops") ? fmt::format(" of {:.4g} ({})", r.value("compute_roof_gflops", 0.0), r.value("compute_roof", ""))
                                               : "");
  if (r.contains("share"))
    fmt::print("  {}{} of the speed of light, bound by {}: {}; work by {}\n", what, cli.bold(fmt::format("{:.1f} %", 100 * r.value("share", 0.0))),
               r.value("bound", "?"), text, r["work"].value("source", "?"));
  else
    fmt::print("  {}{}; work by {}\n", what, text, r["work"].value("source", "?"));
  if (r.value("impossible", false)) fmt::print("  {}: {}\n", cli.bad("impossible"), r.value("sentence", ""));
  if (r.contains("notes"))
    for (const Json& note : r["notes"]) fmt::print("    {}\n", note.get<std::string>());
}

int correctness_exit(validate::Correctness c, replay::Outcome outcome) {
  if (c == validate::Correctness::correct) return 0;
  if (c == validate::Correctness::failed && outcome != replay::Outcome::ok)
    return outcome == replay::Outcome::compile_failed || outcome == replay::Outcome::missing_symbol ? 7 : 8;
  return 3;
}

std::string conditions_text(const Json& answer) {
  const auto ran = decode_json<replay::Conditions>(answer.at("ran"), "conditions");
  return ran ? conditions_line(*ran) : "";
}

void print_notes(const Json& answer) {
  for (const Json& note : answer.at("notes")) fmt::print("  note: {}\n", note.get<std::string>());
}

void print_replay(const Cli& cli, const Json& done, bool validated, bool asked_of_roofline) {
  fmt::print("{} [{}] on {}\n", cli.bold(done.at("kernel").get<std::string>()),
             done.at("variant").get<std::string>(), done.at("device").value("name", ""));
  fmt::print("  {}\n", conditions_text(done));
  const auto s = done.at("summary").get<measure::Summary>();
  fmt::print("  median {} (quartiles {} to {}, min {}, max {}, n {})\n", cli.bold(format_ns(s.median_ns)),
             format_ns(s.q1_ns), format_ns(s.q3_ns), format_ns(s.min_ns), format_ns(s.max_ns), s.count);
  if (done.contains("throughput") && done["throughput"].contains("per_s"))
    fmt::print("  back to back: {:.0f} launches/s, {:.2f} us of the host each\n", done["throughput"].value("per_s", 0.0),
               done["throughput"].value("host_us", 0.0));
  if (done.contains("delta"))
    fmt::print("  {:.3f} x of run {} ({}, same conditions); a difference, not a claim\n",
               done["delta"].value("ratio", 1.0), done["delta"].value("run", 0),
               done["delta"].value("variant", ""));
  fmt::print("  {} restored before each launch, of {} captured\n",
             format_bytes(done.value("restored_bytes_per_iteration", std::uint64_t{0})),
             format_bytes(done.value("captured_bytes", std::uint64_t{0})));
  const auto mode = done.at("address_mode").get<replay::AddressMode>();
  std::string addresses = to_string(mode);
  if (mode == replay::AddressMode::exact) addresses += ", by " + done.value("address_by", "");
  if (mode == replay::AddressMode::relocated)
    addresses += fmt::format(", {} pointers rewritten", done.value("rewritten_words", std::uint64_t{0}));
  if (mode != replay::AddressMode::none) fmt::print("  addresses: {}\n", addresses);
  const Json &driver = done.at("resources").at("driver"), &code = done.at("resources").at("code");
  std::string resources;
  for (const char* name : {"vector_registers", "scalar_registers", "spilled_registers", "scratch_bytes",
                           "shared_bytes", "subgroup_size", "occupancy"})
    if (driver.contains(name) && !driver[name].is_null())
      resources += fmt::format("{}{} {}", resources.empty() ? "" : ", ", name, driver[name].dump());
  if (!resources.empty()) resources = "; driver: " + resources;
  if (code.contains("capabilities")) {
    const auto r = code.get<compile::Reflection>();
    fmt::print("  code: {} SPIR-V instructions, {} matrix, {} shared{}\n", r.instructions,
               r.matrix_instructions, format_bytes(r.shared_bytes), resources);
  } else {
    fmt::print("  code: {}{}\n", figures_line(code.get<compile::KernelFacts>()), resources);
  }
  if (done.contains("counters")) print_counters(done["counters"]);
  if (done.contains("roofline") && (asked_of_roofline || done["roofline"].contains("achieved_gbs") || done["roofline"].contains("achieved_gflops")))
    print_roofline(cli, "", done["roofline"]);
  if (validated) print_validation(cli, done.at("validation").get<replay::Validation>());
  print_notes(done);
}

/// `klab replay BUNDLE` and `klab session run ID`.
int do_replay(Cli& cli, const RunOptions& o) {
  auto conditions = conditions_of(o);
  if (!conditions) return cli.report(conditions.error());
  Json arguments = ops::condition_arguments(*conditions);
  arguments.update(ops::launch_arguments(o.launch));
  arguments.update(place_of(o));
  arguments.update({{"dispatch", o.dispatch},
                    {"variant", variant_reference(o.variant)},
                    {"device", o.device},
                    {"counters", counters_of(o)},
                    {"validate", !o.no_validate},
                    {"cached", o.cached},
                    {"budget_s", o.budget_s}});
  auto checks = checks_of(o);
  if (!checks) return cli.report(checks.error());
  arguments.update(*checks);
  arguments.update(ops::work_arguments(o.work));
  auto done = cli.call(o.session.empty() ? "replay" : "session.run", arguments);
  if (!done) return cli.report(done.error());
  const int code =
      o.no_validate ? 0
                    : correctness_exit(done->at("validation").at("correctness").get<validate::Correctness>(),
                                       done->at("outcome").get<replay::Outcome>());
  if (cli.json)
    cli.print_json(o.session.empty() ? "replay" : "session run", std::move(*done));
  else
    print_replay(cli, *done, !o.no_validate, !o.work.empty() || !counters_of(o).empty());
  return code;
}

int speed_exit(validate::Speed speed, bool interrupted) {
  using validate::Speed;
  if (interrupted) return 130;
  switch (speed) {
    case Speed::slower:
      return 4;
    case Speed::inconclusive:
    case Speed::unstable:
    case Speed::clock_dependent:
      return 5;
    default:
      return 0;
  }
}

/// The verdict first, then what it rests on.
void print_comparison(const Cli& cli, const Json& done, const std::string& a, const std::string& b) {
  const Json& j = done.at("comparison");
  const auto stored = decode_json<measure::Comparison>(j, "comparison");
  if (!stored) return;
  const measure::Conclusion& c = stored->conclusion;
  const std::string word = to_string(c.verdict);
  using measure::Verdict;
  fmt::print("  {}{}: {}\n",
             c.verdict == Verdict::faster       ? cli.good(word)
             : c.verdict == Verdict::slower     ? cli.bad(word)
             : c.verdict == Verdict::equivalent ? cli.bold(word)
                                                : cli.warn(word),
             c.headline.empty() ? "" : ", " + c.headline, c.reason);
  const auto of_a = done.at("a").get<measure::Summary>(), of_b = done.at("b").get<measure::Summary>();
  fmt::print("  A {}: median {}   B {}: median {}   B takes {:.4f} x of A's time\n", a, format_ns(of_a.median_ns), b,
             format_ns(of_b.median_ns), c.interval.ratio);
  fmt::print("  {} blocks of four letters ({} launches each) in {} placements, {} dropped; {:.0f} % interval by {}\n", c.blocks,
             j.value("launches_per_letter", 0), c.placements, c.blocks_dropped, 100 * (1 - c.interval.alpha), c.interval.from);
  for (const auto& [why, n] : c.dropped) fmt::print("    dropped: {} ({})\n", why, n);
  const Json floor = j.value("floor", Json::object());
  fmt::print("  differences up to {:.2f} % count as none: margin {:.2f} %, two copies of A differ by {:.2f} % here{}\n",
             100 * stored->design.delta(), 100 * stored->design.margin, 100 * stored->design.floor,
             floor.value("measured", false) ? " (measured now)" : floor.contains("at") ? " (measured " + floor.value("at", "") + ")" : "");
  if (c.cycles)
    fmt::print("  in cycles of the processors: {:.4f} ({:.4f} to {:.4f})\n", c.cycles->ratio, c.cycles->low, c.cycles->high);
  const Json environment = j.value("environment", Json::object());
  fmt::print("  clocks: {}{}\n", j.value("clocks", "not observed"),
             environment.contains("why") ? " (" + environment.value("why", "") + ")" : "");
  if (c.verdict == Verdict::inconclusive && !stored->interrupted)
    fmt::print("  a larger --budget narrows the interval\n");
}

/// One line each, and which to save. Returns the exit code.
int report_finalists(Cli& cli, const RunOptions& o, Json done) {
  using validate::Correctness;
  using validate::Speed;
  const Json& all = done.at("finalists");
  int wrong = 0, undecided = 0;
  bool interrupted = false, all_slower = true;
  for (const Json& one : all) {
    const auto speed = one.at("verdict").at("speed").get<Speed>();
    const bool stopped = one.contains("comparison") && one["comparison"].value("interrupted", false);
    const int correctness = correctness_exit(one["verdict"].at("correctness").get<Correctness>(), one.at("outcome").get<replay::Outcome>());
    if (wrong == 0) wrong = correctness;
    if (undecided == 0 && correctness == 0 && speed_exit(speed, stopped) == 5) undecided = 5;
    interrupted = interrupted || stopped;
    all_slower = all_slower && speed == Speed::slower;
  }
  const int code = interrupted ? 130 : done.contains("best") ? 0 : wrong != 0 ? wrong : undecided != 0 ? undecided : all_slower ? 4 : 0;
  if (cli.json) {
    cli.print_json("compare", std::move(done));
    return code;
  }
  fmt::print("{}: {} variants against {} on {}\n", cli.bold(all.at(0).at("kernel").get<std::string>()), o.variants.size(), o.against,
             all[0].at("device").value("name", ""));
  std::string best;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Json &one = all[i], &verdict = one.at("verdict");
    const auto correctness = verdict.at("correctness").get<Correctness>();
    const std::string speed = verdict.at("speed").get<std::string>(), headline = one.value("headline", "");
    std::string says = cli.bad(to_string(correctness)) + ": " + verdict.at("reason").get<std::string>();
    if (correctness == Correctness::correct) {
      says = speed == "faster" ? cli.good(speed) : speed == "slower" ? cli.bad(speed) : cli.bold(speed == "none" ? "correct, not timed" : speed);
      if (!headline.empty()) says += ", " + headline;
      if (one.contains("ratio")) {
        const auto interval = one["ratio"].get<measure::Interval>();
        says += fmt::format("; takes {:.4f} of the time ({:.4f} to {:.4f})", interval.ratio, interval.low, interval.high);
      }
    }
    fmt::print("  {}: {}\n", o.variants[i], says);
    if (done.contains("best") && done["best"] == i) best = o.variants[i];
  }
  if (all.size() < o.variants.size()) fmt::print("  interrupted: {} more were not measured\n", o.variants.size() - all.size());
  fmt::print("  the chance of any false claim among all of them is at most {:.0f} % (Holm)\n", 100 * measure::kAlpha);
  if (best.empty())
    fmt::print("none of them is faster by more than chance\n");
  else
    fmt::print("next: klab save {} --variant {}\n", o.bundle, best);
  return code;
}

int do_compare(Cli& cli, RunOptions o) {
  const bool several = o.variants.size() > 1;
  o.variant = several ? "" : o.variants.at(0);
  auto conditions = conditions_of(o);
  if (!conditions) return cli.report(conditions.error());
  Json arguments = ops::condition_arguments(*conditions);
  arguments.update(place_of(o));
  arguments.update({{"dispatch", o.dispatch},
                    {"against", variant_reference(o.against)},
                    {"device", o.device},
                    {"measure_s", o.measure_s},
                    {"margin", o.margin},
                    {"budget_s", o.budget_s}});
  if (!several) arguments["variant"] = variant_reference(o.variant);
  for (const std::string& one : o.variants)
    if (several) arguments["variants"].push_back(variant_reference(one));
  auto checks = checks_of(o);
  if (!checks) return cli.report(checks.error());
  arguments.update(*checks);
  arguments.update(ops::work_arguments(o.work));
  auto answer = cli.call(o.session.empty() ? "compare" : "session.compare", arguments);
  if (!answer) return cli.report(answer.error());
  if (several) return report_finalists(cli, o, std::move(*answer));
  Json done = std::move(*answer);
  const Json &verdict = done.at("verdict"), &variants = done.at("variants");
  const auto correctness = verdict.at("correctness").get<validate::Correctness>();
  const auto speed = verdict.at("speed").get<validate::Speed>();
  const bool both = variants.size() == 2, timed = done.contains("comparison");
  int code = correctness_exit(correctness, both ? variants[1].at("outcome").get<replay::Outcome>()
                                                : done.at("outcome").get<replay::Outcome>());
  if (code == 0) code = speed_exit(speed, timed && done["comparison"].value("interrupted", false));
  if (cli.json) {
    cli.print_json(o.session.empty() ? "compare" : "session compare", std::move(done));
    return code;
  }
  // A file given as variant was built and has a name of its own now.
  const std::string name = both ? variants[1].at("label").get<std::string>() : o.variant;
  fmt::print("{}: {} against {} on {}\n", cli.bold(done.at("kernel").get<std::string>()), name, o.against,
             done.at("device").value("name", ""));
  if (correctness == validate::Correctness::failed)
    fmt::print("  {}: {}\n", cli.bad("failed"), verdict.at("reason").get<std::string>());
  else
    print_validation(cli, variants.at(1).at("validation").get<replay::Validation>());
  if (timed) {
    print_comparison(cli, done, o.against, name);
    if (!o.work.empty() && done.contains("roofline")) {
      print_roofline(cli, "A: ", done["roofline"]["a"]);
      print_roofline(cli, "B: ", done["roofline"]["b"]);
    }
    fmt::print("  {}\n", conditions_text(done));
    if (o.session.empty()) fmt::print("  all of it: klab report {}\n", o.bundle);
  } else if (speed == validate::Speed::identical) {
    fmt::print("  {}: same code and launch, so times are not compared\n", cli.bold("identical"));
  }
  print_notes(done);
  if (correctness == validate::Correctness::correct)
    fmt::print("next: klab {} {} --variant {}\n", o.session.empty() ? "save" : "session save",
               o.session.empty() ? o.bundle : o.session, name);
  return code;
}

void add_condition_options(CLI::App* verb, RunOptions& o, bool of_session, bool compares) {
  if (of_session)
    verb->add_option("session", o.session, "its id")->required();
  else
    verb->add_option("bundle", o.bundle, "NAME.klab")->required();
  verb->add_option("--dispatch", o.dispatch, "which dispatch of the bundle")->capture_default_str();
  if (!compares) {
    verb->add_option("--iterations", o.iterations, "timed launches")
        ->check(CLI::Range(1u, 10000u))
        ->capture_default_str();
    verb->add_option("--repeats", o.repeats, "replays under condition repeats")
        ->check(CLI::Range(2u, 100u))
        ->capture_default_str();
  }
  verb->add_option("--condition", o.condition,
                   compares ? "isolated: inputs restored before each launch; sustained: launches back to back after one restore"
                            : "isolated: inputs restored before each launch; sustained: back to back after one restore; "
                              "repeats: the whole replay several times with fresh allocations")
      ->check(compares ? CLI::IsMember({"isolated", "sustained"}) : CLI::IsMember({"isolated", "sustained", "repeats"}))
      ->capture_default_str();
  verb->add_option("--cache", o.cache, "cold: other data goes through it before each launch; warm: nothing; rotating: launches take turns on copies of the "
                                      "capture that are larger than it (default: cold; sustained is always warm)")
      ->check(CLI::IsMember({"cold", "warm", "rotating"}));
  verb->add_option("--memory", o.memory, "pool to place memory in: device or host (default: as captured)")
      ->check(CLI::IsMember({"device", "host"}));
  verb->add_option("--flush-mb", o.flush_mb,
                   "MiB that go through the caches before each launch: half written, then half read")
      ->check(CLI::Range(0, 65536));
  verb->add_option("--device", o.device, "index, uuid or part of a name (see klab devices)");
  verb->add_option("--level", o.checks.level,
                   "bitwise: every byte (default); numeric: floating-point elements within a tolerance, all else "
                   "exactly; custom: a program of yours decides")
      ->check(CLI::IsMember({"bitwise", "numeric", "custom"}));
  verb->add_option("--type", o.checks.types,
                   "element type of a region, REGION=TYPE[:SHAPE]: out=f16:4096x4096 (default: found out from the code)")
      ->allow_extra_args(false);
  verb->add_option("--tolerance", o.checks.tolerances,
                   "level numeric: abs=1e-5,rel=1e-4, or for one region out:rel=1e-3 (default: by type)")
      ->allow_extra_args(false);
  verb->add_option("--reference", o.checks.references,
                   "level numeric: REGION=FILE, float64 values (.npy or raw): the variant's error may be twice the "
                   "captured kernel's")
      ->allow_extra_args(false);
  verb->add_option("--checker", o.checks.checker,
                   of_session ? "level custom: a checker that klab.toml names"
                              : "level custom: the program that decides; once more for each argument (docs/validation.md)")
      ->allow_extra_args(false);
  if (!of_session)
    verb->add_option("--checker-limit", o.checks.checker_limit_s, "seconds that the checker may take for one answer")
        ->check(CLI::Range(0.001, 3600.0))
        ->capture_default_str();
  verb->add_option("--unseen", o.unseen,
                   "another launch that the variant must be right for too: \"grid=3,1,1 push=0=e8030000\"")
      ->allow_extra_args(false);
  verb->add_flag("!--no-other-captures", o.checks.other_captures,
                 "do not judge on the bundle's other dispatches");
  verb->add_option("--flops", o.work.flops,
                   "operations of one launch, for its share of the speed of light: 2e9, fp64=1e9, matrix:bf16=1.1e12")
      ->allow_extra_args(false);
  verb->add_option("--bytes", o.work.bytes, "bytes of memory that one launch moves: 1.2e9, or read=8e8 and written=4e8")
      ->allow_extra_args(false);
  verb->add_option("--seed", o.checks.seed, "of mutated inputs and of the order of launches")->capture_default_str();
  verb->add_option(compares ? "--worker-budget" : "--budget,--worker-budget", o.budget_s, "seconds that the worker may take in all")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  if (!compares) return;
  verb->add_option("--budget", o.measure_s,
                   "time to measure in: 2s, 10s, 60s. A short one widens the interval, never the claim. 0: only judge. "
                   "Once a week as much again goes to what two copies of one module differ by")
      ->transform(CLI::AsNumberWithUnit(std::map<std::string, double>{{"ms", 0.001}, {"s", 1}, {"m", 60}}, CLI::AsNumberWithUnit::UNIT_OPTIONAL))
      ->check(CLI::Range(0.0, 3600.0))
      ->default_str("10s");
  verb->add_option("--margin", o.margin, "differences up to this count as none")
      ->check(CLI::Range(0.005, 0.99))
      ->capture_default_str();
}

}  // namespace

namespace {

void add_replay(Cli& cli, CLI::App* verb, bool of_session) {
  auto options = std::make_shared<RunOptions>();
  add_condition_options(verb, *options, of_session, false);
  verb->add_option("--variant", options->variant, "name, id, or a source or binary file")
      ->capture_default_str();
  verb->add_flag(
      "--counters", options->counters,
      "read hardware counters too (memory bytes, hit rates, operations, stalls), in passes of their own");
  verb->add_option("--counter", options->counter_names, "one counter by the vendor's name; may be repeated")
      ->type_name("NAME");
  verb->add_flag("--no-validate", options->no_validate, "do not check the results");
  verb->add_flag("--cached", options->cached,
                 "an earlier run of the same code, launch, capture, device, driver and conditions will do");
  add_launch_options(verb, options->launch);
  cli.run_on(verb, [&cli, options] { return do_replay(cli, *options); });
}

void add_compare(Cli& cli, CLI::App* verb, bool of_session) {
  auto options = std::make_shared<RunOptions>();
  add_condition_options(verb, *options, of_session, true);
  verb->add_option("--variant", options->variants,
                   of_session ? "name, id, or a source or binary file"
                              : "name, id, or a source or binary file; several, up to 8, are claimed together: each has --budget, and the "
                                "chance of any false claim stays 5 %")
      ->required()
      ->allow_extra_args(false);
  verb->add_option("--against", options->against, "the reference")->capture_default_str();
  cli.run_on(verb, [&cli, options] { return do_compare(cli, *options); });
}

}  // namespace

void add_run_verbs(Cli& cli) {
  add_replay(
      cli,
      cli.verb("replay", "run the captured dispatch alone, timed, its inputs restored before each launch",
               "klab replay matmul.klab --iterations 100 --variant faster"),
      false);
  add_compare(cli,
              cli.verb("compare", "judge a variant: is it right, and is it faster",
                       "klab compare matmul.klab --variant faster"),
              false);
}

void add_session_run_verbs(Cli& cli, CLI::App* session) {
  add_replay(cli,
             cli.verb("run", "time a variant (or the baseline) and check its results",
                      "klab session run s1234567 --variant faster", session),
             true);
  add_compare(cli,
              cli.verb("compare", "judge a variant: is it right, and is it faster",
                       "klab session compare s1234567 --variant faster", session),
              true);
}

}  // namespace klab::cli
