// SPDX-License-Identifier: Apache-2.0
// replay, compare.
#include <fmt/format.h>

#include "base/units.h"
#include "cli/cli.h"
#include "ops/run.h"

namespace klab::cli {

namespace {

struct RunOptions {
  std::string bundle, variant = "baseline", against = "baseline", condition = "isolated", cache, memory,
                      device;
  std::uint32_t dispatch = 0, iterations = 20, repeats = 5;
  std::uint64_t flush_mb = 0;
  double budget_s = 600;
  bool no_validate = false, counters = false;
  std::vector<std::string> counter_names;
  ops::LaunchText launch;
};

Result<replay::Conditions> conditions_of(const RunOptions& o) {
  replay::Conditions c{
      .iterations = o.iterations, .repeats = o.repeats, .memory = o.memory, .flush_mb = o.flush_mb};
  from_string(o.condition, c.mode);
  if (c.mode == replay::Mode::sustained && o.cache == "cold")
    return fail(ErrorCode::usage,
                "launches back to back leave the cache warm: --condition sustained has no cold cache",
                "--cache warm, or --condition isolated");
  if (!o.cache.empty())
    from_string(o.cache, c.cache);
  else if (c.mode == replay::Mode::sustained)
    c.cache = replay::CacheState::warm;
  return c;
}

std::string conditions_line(const replay::Conditions& c) {
  std::string text =
      fmt::format("{}, {} iterations, cache {}", to_string(c.mode), c.iterations, to_string(c.cache));
  if (c.mode == replay::Mode::repeats) text += fmt::format(", {} replays with fresh allocations", c.repeats);
  if (!c.memory.empty()) text += ", memory " + c.memory;
  if (c.flush_mb != 0) text += fmt::format(", {} MiB flushed before each launch", c.flush_mb);
  return text;
}

void print_validation(const Cli& cli, const replay::Validation& v) {
  using validate::Correctness;
  const std::string word = to_string(v.correctness);
  fmt::print("  {}: {}\n",
             v.correctness == Correctness::correct        ? cli.good(word)
             : v.correctness == Correctness::not_verified ? cli.warn(word)
                                                          : cli.bad(word),
             v.reason);
  for (const replay::RegionDifference& d : v.differences)
    fmt::print("    region {}{}: {} bytes differ, first at offset {}: expected {}, got {}\n", d.region,
               d.name.empty() ? "" : " (" + d.name + ")", d.differing_bytes, d.first_offset, d.expected,
               d.actual);
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
    if (d["value"].is_number()) fmt::print("    {:<22} {:.6g} {}\n", name, d["value"].get<double>(), d.value("unit", ""));
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

int correctness_exit(validate::Correctness c, replay::Outcome outcome) {
  if (c == validate::Correctness::correct) return 0;
  if (c == validate::Correctness::failed && outcome != replay::Outcome::ok)
    return outcome == replay::Outcome::compile_failed || outcome == replay::Outcome::missing_symbol ? 7 : 8;
  return 3;
}

int do_replay(Cli& cli, const RunOptions& o) {
  auto conditions = conditions_of(o);
  if (!conditions) return cli.report(conditions.error());
  auto done = ops::replay_dispatch(cli.lab, {.bundle = o.bundle,
                                             .dispatch = o.dispatch,
                                             .variant = o.variant,
                                             .launch = o.launch,
                                             .conditions = *conditions,
                                             .device = o.device,
                                             .counters = counters_of(o),
                                             .validate = !o.no_validate,
                                             .budget_s = o.budget_s});
  if (!done) return cli.report(done.error());
  const replay::VariantAnswer& v = done->variant();
  const int code = o.no_validate ? 0 : correctness_exit(v.validation.correctness, v.outcome);
  if (cli.json) {
    cli.print_json("replay", *done);
    return code;
  }
  fmt::print("{} [{}] on {}\n", cli.bold(done->kernel), v.label, done->answer.device.name);
  fmt::print("  {}\n", conditions_line(done->answer.ran));
  const measure::Summary& s = done->summary;
  fmt::print("  median {} (quartiles {} to {}, min {}, max {}, n {})\n", cli.bold(format_ns(s.median_ns)),
             format_ns(s.q1_ns), format_ns(s.q3_ns), format_ns(s.min_ns), format_ns(s.max_ns), s.count);
  if (done->delta)
    fmt::print("  {:.3f} x of run {} ({}, same conditions); a difference, not a claim\n", done->delta->ratio,
               done->delta->run, done->delta->variant);
  fmt::print("  {} restored before each launch, of {} captured\n",
             format_bytes(v.restored_bytes_per_iteration), format_bytes(done->answer.captured_bytes));
  std::string addresses = to_string(done->answer.address_mode);
  if (done->answer.address_mode == replay::AddressMode::exact) addresses += ", by " + done->answer.address_by;
  if (done->answer.address_mode == replay::AddressMode::relocated)
    addresses += fmt::format(", {} pointers rewritten", done->answer.rewritten_words);
  if (done->answer.address_mode != replay::AddressMode::none) fmt::print("  addresses: {}\n", addresses);
  std::string resources;
  for (const char* name : {"vector_registers", "scalar_registers", "spilled_registers", "scratch_bytes",
                           "shared_bytes", "subgroup_size", "occupancy"})
    if (v.resources.contains(name) && !v.resources[name].is_null())
      resources += fmt::format("{}{} {}", resources.empty() ? "" : ", ", name, v.resources[name].dump());
  if (done->kernel_facts)
    fmt::print("  code: {}{}\n", figures_line(*done->kernel_facts),
               resources.empty() ? "" : "; driver: " + resources);
  else
    fmt::print("  code: {} SPIR-V instructions, {} matrix, {} shared{}\n", done->code.reflection.instructions,
               done->code.reflection.matrix_instructions, format_bytes(done->code.reflection.shared_bytes),
               resources.empty() ? "" : "; driver: " + resources);
  print_counters(v.counters);
  if (!o.no_validate) print_validation(cli, v.validation);
  for (const std::string& note : done->answer.notes) fmt::print("  note: {}\n", note);
  return code;
}

int do_compare(Cli& cli, const RunOptions& o) {
  auto conditions = conditions_of(o);
  if (!conditions) return cli.report(conditions.error());
  auto done = ops::compare_variants(cli.lab, {.bundle = o.bundle,
                                              .dispatch = o.dispatch,
                                              .variant = o.variant,
                                              .against = o.against,
                                              .conditions = *conditions,
                                              .device = o.device,
                                              .budget_s = o.budget_s});
  if (!done) return cli.report(done.error());
  const replay::Outcome outcome =
      done->answer.variants.size() == 2 ? done->answer.variants[1].outcome : done->answer.outcome;
  const int code = correctness_exit(done->verdict.correctness, outcome);
  if (cli.json) {
    cli.print_json("compare", *done);
    return code;
  }
  // A file given as variant was built and has a name of its own now.
  const std::string name = done->answer.variants.size() == 2 ? done->answer.variants[1].label : o.variant;
  fmt::print("{}: {} against {} on {}\n", cli.bold(done->kernel), name, o.against, done->answer.device.name);
  if (done->verdict.correctness == validate::Correctness::failed)
    fmt::print("  {}: {}\n", cli.bad("failed"), done->verdict.reason);
  else
    print_validation(cli, done->answer.variants[1].validation);
  if (done->ratio) {
    fmt::print("  {}\n", conditions_line(done->answer.ran));
    fmt::print("  A {}: median {}   B {}: median {}\n", o.against, format_ns(done->a.median_ns), name,
               format_ns(done->b.median_ns));
    fmt::print(
        "  B takes {:.3f} x of A's time (bootstrap interval {:.3f} to {:.3f}); interleaved medians, not a "
        "claim of speed\n",
        done->ratio->ratio, done->ratio->low, done->ratio->high);
  } else if (done->verdict.speed == validate::Speed::identical) {
    fmt::print("  identical: same code and launch, so times are not compared\n");
  }
  for (const std::string& note : done->answer.notes) fmt::print("  note: {}\n", note);
  if (done->verdict.correctness == validate::Correctness::correct)
    fmt::print("next: klab save {} --variant {}\n", o.bundle, name);
  return code;
}

void add_condition_options(CLI::App* verb, RunOptions& o) {
  verb->add_option("bundle", o.bundle, "NAME.klab")->required();
  verb->add_option("--dispatch", o.dispatch, "which dispatch of the bundle")->capture_default_str();
  verb->add_option("--iterations", o.iterations, "timed launches")
      ->check(CLI::Range(1u, 10000u))
      ->capture_default_str();
  verb->add_option("--condition", o.condition,
                   "isolated: inputs restored before each launch; sustained: back to back after one restore; "
                   "repeats: the whole replay several times with fresh allocations")
      ->check(CLI::IsMember({"isolated", "sustained", "repeats"}))
      ->capture_default_str();
  verb->add_option("--repeats", o.repeats, "replays under condition repeats")
      ->check(CLI::Range(2u, 100u))
      ->capture_default_str();
  verb->add_option("--cache", o.cache, "cold or warm (default: cold; sustained is always warm)")
      ->check(CLI::IsMember({"cold", "warm"}));
  verb->add_option("--memory", o.memory, "pool to place memory in: device or host (default: as captured)")
      ->check(CLI::IsMember({"device", "host"}));
  verb->add_option("--flush-mb", o.flush_mb, "MiB that go through the caches before each launch: half written, then half read")
      ->check(CLI::Range(0, 65536));
  verb->add_option("--device", o.device, "index, uuid or part of a name (see klab devices)");
  verb->add_option("--budget", o.budget_s, "seconds that the worker may take")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
}

}  // namespace

void add_run_verbs(Cli& cli) {
  auto replay_options = std::make_shared<RunOptions>();
  auto* replay =
      cli.verb("replay", "run the captured dispatch alone, timed, its inputs restored before each launch",
               "klab replay matmul.klab --iterations 100 --variant faster");
  add_condition_options(replay, *replay_options);
  replay->add_option("--variant", replay_options->variant, "name, id, or a source or binary file")
      ->capture_default_str();
  replay->add_flag("--counters", replay_options->counters,
                   "read hardware counters too (memory bytes, hit rates, operations, stalls), in passes of their own");
  replay->add_option("--counter", replay_options->counter_names, "one counter by the vendor's name; may be repeated")
      ->type_name("NAME");
  replay->add_flag("--no-validate", replay_options->no_validate, "do not check the results");
  add_launch_options(replay, replay_options->launch);
  cli.run_on(replay, [&cli, replay_options] { return do_replay(cli, *replay_options); });

  auto compare_options = std::make_shared<RunOptions>();
  auto* compare = cli.verb("compare", "judge a variant: is it right, and how do its times compare",
                           "klab compare matmul.klab --variant faster");
  add_condition_options(compare, *compare_options);
  compare->add_option("--variant", compare_options->variant, "name, id, or a source or binary file")
      ->required();
  compare->add_option("--against", compare_options->against, "the reference")->capture_default_str();
  cli.run_on(compare, [&cli, compare_options] { return do_compare(cli, *compare_options); });
}

}  // namespace klab::cli
