// SPDX-License-Identifier: Apache-2.0
// The verbs replay and compare: validation, then timing under the conditions asked for, and an answer that
// says what ran.
#include <algorithm>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "base/units.h"
#include "bundle/emulated.h"
#include "measure/block.h"
#include "worker/counters.h"
#include "worker/server_run.h"

namespace klab::worker {
namespace {

using replay::CacheState;
using replay::Mode;
using replay::Outcome;

constexpr std::uint64_t kUnknownCacheFlush = 64ull << 20;
// A server CPU's shared cache takes longer to flush than most kernels run, and is shared with the rest of the
// machine.
constexpr std::uint64_t kMostCpuFlush = 16ull << 20;
constexpr std::uint32_t kMostIterations = 10000, kMostRepeats = 1000;
constexpr std::uint32_t kSustainedLetter = 5;  // launches back to back before a comparison changes sides

Status check_conditions(const replay::Request& request) {
  const auto& c = request.conditions;
  const std::size_t wanted = request.verb == "compare" ? 2 : 1;
  if (request.variants.size() != wanted)
    return fail(ErrorCode::usage, fmt::format("verb {} takes {} variant(s), not {}", request.verb, wanted,
                                              request.variants.size()));
  if (c.iterations < 1 || c.iterations > kMostIterations)
    return fail(ErrorCode::usage,
                fmt::format("{} iterations: 1 to {} can be run", c.iterations, kMostIterations));
  if (c.mode == Mode::repeats && (c.repeats < 1 || c.repeats > kMostRepeats))
    return fail(ErrorCode::usage, fmt::format("{} repeats: 1 to {} can be run", c.repeats, kMostRepeats));
  if (request.verb == "compare" && c.mode == Mode::repeats)
    return fail(ErrorCode::mode_mismatch, "a comparison places everything anew many times by itself: it has no mode repeats",
                "use the isolated mode");
  if (c.flush_mb > 64 << 10) return fail(ErrorCode::usage, "a flush of more than 64 GiB makes no sense");
  if (c.mode == Mode::sustained && c.flush_mb != 0)
    return fail(ErrorCode::mode_mismatch, "sustained launches go back to back, with no flush between them",
                "leave out --flush-mb, or use the isolated mode");
  if (c.cache == CacheState::warm && c.flush_mb != 0)
    return fail(ErrorCode::mode_mismatch, "caches are not warm when they are flushed before each launch",
                "leave out --flush-mb, or ask for cold caches");
  if (c.cache == CacheState::rotating) {
    if (c.mode != Mode::isolated || c.flush_mb != 0)
      return fail(ErrorCode::mode_mismatch, "rotating caches are for the isolated mode, with no flush", "leave out --condition and --flush-mb");
    if (!request.counters.empty())
      return fail(ErrorCode::mode_mismatch, "hardware counters are read with one copy of the capture, not with rotating ones",
                  "--cache cold or warm");
  }
  return {};
}

/// Twice the last-level cache, as far as a flush or a rotation goes, and a sentence of how much that is.
std::pair<std::uint64_t, std::string> twice_the_cache(const gpu::Abilities& abilities, const replay::Answer& answer) {
  constexpr int kMiB = 20;
  const std::uint64_t twice = 2 * abilities.last_level_cache;
  if (twice == 0)
    return {kUnknownCacheFlush, fmt::format("the size of the last-level cache is not known here: {} MiB", kUnknownCacheFlush >> kMiB)};
  if (answer.device.type == "cpu" && twice > kMostCpuFlush)
    return {kMostCpuFlush, fmt::format("this CPU's last-level cache has {} MiB; only {} MiB", abilities.last_level_cache >> kMiB,
                                       kMostCpuFlush >> kMiB)};
  return {twice, format_bytes(twice) + ", twice the last-level cache,"};
}

/// The flush of one launch, and what of it was really set.
std::uint64_t flush_bytes(const replay::Conditions& asked, const gpu::Abilities& abilities,
                          replay::Answer& answer) {
  if (asked.mode == Mode::sustained) {
    if (asked.cache == CacheState::cold)
      answer.notes.push_back("sustained launches run with warm caches: nothing is flushed between them");
    answer.ran.cache = CacheState::warm;
    return 0;
  }
  if (asked.flush_mb != 0) return asked.flush_mb << 20;
  if (asked.cache != CacheState::cold) return 0;
  const auto [bytes, text] = twice_the_cache(abilities, answer);
  const bool partly = bytes < 2 * abilities.last_level_cache;
  answer.notes.push_back(text + " are written and read before each launch" +
                         (partly ? fmt::format(" (--flush-mb {} writes twice its size)", 2 * abilities.last_level_cache >> 20) : ""));
  return bytes;
}

/// Why the kernel may not be launched back to back; empty: it may.
Result<std::string> reads_what_it_writes(Loaded& loaded, const Reference& r, const Variant& v,
                                         const Deadline& deadline) {
  for (std::size_t k = 0; k < r.written.size(); ++k) {
    if (!r.dependent[k].any()) continue;
    const auto& c = loaded.chunk(r.written[k]);
    return fmt::format(
        "the kernel reads what it writes: the result in {} at offset {} depends on what was there before",
        loaded.region_name(c.region), c.offset + validate::runs(r.dependent[k]).front().offset);
  }
  const auto steps = v.steps();
  std::vector<kernels::Hash> results[2];
  for (auto& result : results) {
    KLAB_TRY_VOID(loaded.gpu().run(steps, deadline.timeout_ns(kLaunchTimeout)));
    KLAB_TRY(result, loaded.hash_all(deadline));
  }
  KLAB_TRY_VOID(loaded.make_pristine(deadline));
  for (ChunkId id = 0; id < loaded.chunk_count(); ++id) {
    if (results[0][id] == results[1][id]) continue;
    return fmt::format("the kernel reads what it writes: a second launch changes {} again",
                       loaded.region_name(loaded.chunk(id).region));
  }
  return std::string();
}

}  // namespace

void Server::Run::fail_variant(std::size_t i, const Error& error) {
  auto& a = answer.variants[i];
  a.outcome = outcome_of(error);
  a.error = error;
  a.validation.correctness = validate::Correctness::failed;
  a.validation.reason = fmt::format("{}: {}", to_string(a.outcome), error.what);
  variants[i].reset();
}

Status Server::Run::take(std::size_t i, const Error& error) {
  fail_variant(i, error);
  if (!loaded.gpu().lost()) return {};
  for (std::size_t other = 0; other < variants.size(); ++other)
    if (variants[other])
      fail_variant(
          other, Error{ErrorCode::worker_lost,
                       fmt::format("not measured: the device was lost by \"{}\"", answer.variants[i].label),
                       "replay it alone"});
  return fail(error);
}

bool Server::Run::any() const {
  return std::any_of(variants.begin(), variants.end(), [](const auto& v) { return v.has_value(); });
}

void Server::Run::note(const std::string& text) {
  if (std::find(answer.notes.begin(), answer.notes.end(), text) == answer.notes.end())
    answer.notes.push_back(text);
}

void Server::Run::prepare_variants() {
  for (std::size_t i = 0; i < request.variants.size(); ++i) {
    auto v = make_variant(loaded, request.variants[i]);
    if (!v) {
      fail_variant(i, v.error());
      continue;
    }
    answer.variants[i].resources = v->resources;
    answer.variants[i].code_hash = v->code_hash;
    for (const std::string& n : v->notes) note(request.variants.size() > 1 ? v->label + ": " + n : n);
    if (v->rewritten_words != 0)
      note(fmt::format("{}: {} pointer word(s) into module variables rewritten to where its own are",
                       v->label, v->rewritten_words));
    answer.rewritten_words =
        std::max(answer.rewritten_words, loaded.rewritten_words() + v->rewritten_words);
    variants[i] = std::move(*v);
  }
}

Status Server::Run::judge_all(const Probed& probed) {
  const Reference& reference = *reference_;
  for (const std::string& n : probed.notes) note(n);
  for (const std::string& n : reference.notes) note(n);
  for (std::size_t i = 0; i < variants.size(); ++i) {
    if (!variants[i]) continue;
    auto j = judge_variant(loaded, reference, *variants[i], deadline);
    if (!j) {
      KLAB_TRY_VOID(take(i, j.error()));
      continue;
    }
    judged[i] = std::move(*j);
    writes[i] = judged[i].written;
    if (!reference.unusable.empty()) continue;
    if (!judged[i].wrong() && !variants[i]->is_baseline) {
      if (const auto done = judge_memory(loaded, reference, *variants[i], judged[i], deadline); !done) {
        KLAB_TRY_VOID(take(i, done.error()));
        continue;
      }
      const auto zones = observe_redzones(loaded, reference, request.variants[i], *variants[i], deadline);
      if (!zones) {
        KLAB_TRY_VOID(take(i, zones.error()));
        continue;
      }
      if (!reference.writes_redzones) judged[i].evidence.outside = zones->wrote;
      if (!reference.reads_redzones) judged[i].evidence.redzone = zones->reads;
    }
    if (!judged[i].wrong() && !request.checks.unseen_launches.empty()) {
      const auto tried = judge_launches(loaded, reference, request.variants[i], request.checks.unseen_launches,
                                        judged[i], deadline);
      if (!tried) {
        KLAB_TRY_VOID(take(i, tried.error()));
        continue;
      }
    }
    // On another device or driver other low bits are to be expected; on the same one the capture is not
    // proved.
    const auto& captured = loaded.bundle().manifest().device;
    if (!reference.captured_difference.empty() && captured.uuid == answer.device.uuid &&
        captured.driver_version == answer.device.driver_version && judged[i].evidence.not_judged.empty())
      judged[i].evidence.not_judged = reference.captured_difference + ": what is right is not known";
  }
  if (request.checks.unseen_captures) judge_captures();
  return {};
}

void Server::Run::judge_captures() {
  const auto count = static_cast<std::uint32_t>(loaded.bundle().manifest().dispatches.size());
  replay::Request asked = request;
  asked.variants.clear();
  std::vector<std::size_t> who;
  for (std::size_t i = 0; i < variants.size(); ++i)
    if (variants[i] && !variants[i]->is_baseline && !judged[i].wrong()) {
      asked.variants.push_back(request.variants[i]);
      who.push_back(i);
    }
  for (std::uint32_t other = 0; other < count && !who.empty(); ++other) {
    if (other == request.dispatch) continue;
    const std::string what = fmt::format("dispatch {} of the bundle (execution {} of the kernel)", other,
                                         loaded.bundle().manifest().dispatches[other].nth);
    const auto results = probe_capture(asked, other, deadline);
    if (!results) note(fmt::format("{} was not tried: {}", what, results.error().what));
    for (std::size_t k = 0; results && k < who.size(); ++k) {
      auto& e = judged[who[k]].evidence;
      const std::string& how = (*results)[k];
      ++e.inputs_tried;
      judged[who[k]].inputs.push_back({"capture", what, how.empty() ? "agrees" : how, how.empty()});
      if (how.empty() || (!e.mutated_difference.empty() && e.mutation_is_bounded)) continue;
      e.mutated_difference = fmt::format("on {}: {}", what, how);
      e.mutation_is_bounded = true;
    }
  }
}

Status Server::Run::observe_all() {
  for (std::size_t i = 0; i < variants.size(); ++i) {
    if (!variants[i]) continue;
    auto w = observe_writes(loaded, *variants[i], deadline);
    if (!w) {
      KLAB_TRY_VOID(take(i, w.error()));
      continue;
    }
    writes[i] = *w;
    answer.variants[i].validation.reason = "validation was not asked for";
  }
  return {};
}

Status Server::Run::rotate() {
  const auto [wanted, text] = twice_the_cache(loaded.gpu().abilities(), answer);
  KLAB_TRY(const std::size_t size, Rotation::size_for(loaded.captured_bytes(), wanted));
  KLAB_TRY(rotation, Rotation::create(request.bundle, request.dispatch, loaded.gpu(), {.pool = request.conditions.memory}, size, deadline));
  note(fmt::format("launches take turns on {} copies of the capture ({} together; {} would do); those on the first copy are checked", size,
                   format_bytes(size * loaded.captured_bytes()), text));
  return {};
}

Result<Restorer> Server::Run::restorer_for(const ChunkList& restored) {
  const Reference& reference = *reference_;
  std::vector<Image> images(reference.images.size());
  for (std::size_t image = 0; image < images.size(); ++image)
    for (const ChunkId id : restored) {
      const auto at = std::lower_bound(reference.written.begin(), reference.written.end(), id);
      if (at != reference.written.end() && *at == id) {
        images[image].push_back(
            reference.images[image][static_cast<std::size_t>(at - reference.written.begin())]);
      } else {
        KLAB_TRY(auto bytes, loaded.pre(id));
        images[image].push_back(std::move(bytes));
      }
    }
  std::vector<const Image*> pointers;
  for (const Image& i : images) pointers.push_back(&i);
  return Restorer::create(loaded, restored, pointers);
}

Status Server::Run::time_once(const replay::Conditions& c, bool with_counters, const OnDone& progress) {
  const Reference& reference = *reference_;
  std::vector<std::size_t> who;
  ChunkList restored = reference.written;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    if (!variants[i]) continue;
    who.push_back(i);
    restored = merge(restored, writes[i]);
  }
  if (who.empty()) return {};
  std::optional<Restorer> larger;
  if (restored != reference.written) {
    KLAB_TRY(larger, restorer_for(restored));
  }
  const Restorer& restorer = larger ? *larger : *reference.restorer;

  if (rotation) {
    std::vector<replay::VariantCode> codes;
    for (const std::size_t i : who) codes.push_back(request.variants[i]);
    KLAB_TRY_VOID(rotation->prepare(codes, restored));
  }
  TimingSetup setup{.loaded = &loaded,
                    .restorer = &restorer,
                    .restored = restored,
                    .first_image = reference.poisoned() ? 1u : 0u,
                    .every_launch = request.verb == "compare",
                    .flush_bytes = flush,
                    .rotation = rotation.get(),
                    .seed = request.seed,
                    .warmed_ns = loaded.gpu().busy_ns() - busy_before_ns,
                    .progress = progress};
  std::vector<Timed> timed;
  for (const std::size_t i : who) {
    const OutcomeCheck* check = reference.check ? &*reference.check : judged[i].own ? &*judged[i].own : nullptr;
    if (!request.validate || judged[i].wrong() || !reference.unusable.empty()) check = nullptr;
    timed.push_back({.variant = &*variants[i], .check = check});
  }
  const bool sustained = c.mode == Mode::sustained;
  const auto order = interleave(static_cast<std::uint32_t>(who.size()), c.iterations,
                                sustained ? kSustainedLetter : 1, request.seed);
  auto facts = sustained ? time_sustained(setup, timed, order, deadline)
                         : time_isolated(setup, timed, order, deadline);
  for (std::size_t k = 0; k < who.size(); ++k) {
    auto& a = answer.variants[who[k]];
    a.samples_ns.insert(a.samples_ns.end(), timed[k].samples_ns.begin(), timed[k].samples_ns.end());
    a.restored_bytes_per_iteration = sustained ? 0 : restorer.bytes();
    a.written_bytes = loaded.bytes_of(writes[who[k]]);
    judged[who[k]].evidence.launches_checked += timed[k].launches_checked;
    if (judged[who[k]].evidence.wrong_launch.empty())
      judged[who[k]].evidence.wrong_launch = timed[k].wrong_launch;
    if (facts && judged[who[k]].evidence.inconsistent.empty())
      judged[who[k]].evidence.inconsistent = facts->inconsistent;
    if (facts && !facts->outside.empty()) blame(who, k, facts->outside);
  }
  if (!facts) {
    if (!loaded.gpu().lost()) return fail(facts.error());  // the budget, not a variant
    // In a mixed batch the one that was lost cannot be told; the last variant is the candidate.
    return take(who.back(), facts.error());
  }
  if (with_counters) count(setup, who);
  return {};
}

void Server::Run::count(const TimingSetup& setup, const std::vector<std::size_t>& who) {
  const auto names = counter_names(answer.device.api, request.counters);
  for (const std::size_t i : who) {
    if (!variants[i] || loaded.gpu().lost()) continue;
    auto counters = count_launch(setup, *variants[i], names, deadline);
    if (counters)
      answer.variants[i].counters = counters_json(answer.device.api, *counters);
    else
      answer.notes.push_back("no hardware counters: " + counters.error().what +
                             (counters.error().hint.empty() ? "" : "; " + counters.error().hint));
  }
}

void Server::Run::blame(const std::vector<std::size_t>& who, std::size_t k, const std::string& what) {
  auto& e = judged[who[k]].evidence;
  const bool alone = who.size() == 1;
  const bool other_is_baseline = !alone && variants[who[1 - k]]->is_baseline;
  if (alone || (other_is_baseline && !variants[who[k]]->is_baseline))
    e.outside = what;
  else if (!variants[who[k]]->is_baseline)
    e.not_judged = what + "; which of the two did it is not known";
}

Status Server::Run::measure_throughputs() {
  for (std::size_t i = 0; i < variants.size(); ++i) {
    auto& a = answer.variants[i];
    if (!variants[i] || a.samples_ns.empty() || loaded.gpu().lost()) continue;
    KLAB_TRY_VOID(put_back(*reference_, loaded, deadline));
    KLAB_TRY(const auto why, reads_what_it_writes(loaded, *reference_, *variants[i], deadline));
    if (!why.empty()) {
      a.throughput = {{"why", why}};
      continue;
    }
    KLAB_TRY(const auto t, measure_throughput(loaded, *variants[i], measure::grouped_median(a.samples_ns, 0), deadline));
    a.throughput = {{"per_s", t.per_s}, {"host_us", t.host_us}, {"launches", t.launches}};
    KLAB_TRY_VOID(put_back(*reference_, loaded, deadline));
  }
  return {};
}

/// The captured kernel is the reference, whichever variants are asked for. What it does is found out once for
/// a placement: a variant that is evaluated after another costs its own launches only.
Status Server::keep_reference(const replay::Request& request, const Probed& probe, const Deadline& deadline) {
  const std::string key = fmt::format("{} {} {}", request.validate, request.seed, Json(request.checks).dump());
  if (kept_ != nullptr && kept_->key == key) {
    // The last request's timed launches have left their results.
    KLAB_TRY_VOID(put_back(kept_->reference, *loaded_, deadline));
    if (std::exchange(kept_->states_dropped, false))
      for (MutatedCase& c : kept_->reference.cases) KLAB_TRY_VOID(keep_states(kept_->reference, *loaded_, c));
    return {};
  }
  kept_.reset();
  auto kept = std::make_unique<Kept>();
  kept->key = key;
  KLAB_TRY(kept->baseline, make_variant(*loaded_, {}));
  say(request.validate ? "replaying the captured kernel" : "finding out what the captured kernel writes");
  KLAB_TRY(kept->reference, make_reference(*loaded_, kept->baseline, probe,
                                           {.full = request.validate,
                                            .seed = request.seed,
                                            .checks = request.checks,
                                            .dispatch = request.dispatch},
                                           deadline));
  if (request.validate)
    KLAB_TRY_VOID(add_mutated_cases(kept->reference, *loaded_, kept->baseline, request, deadline));
  KLAB_TRY_VOID(put_on_device(kept->reference, *loaded_));
  if (request.validate) {
    KLAB_TRY(const auto zones, observe_redzones(*loaded_, kept->reference, {}, kept->baseline, deadline));
    kept->reference.writes_redzones = !zones.wrote.empty();
    kept->reference.reads_redzones = !zones.reads.empty();
    if (!zones.wrote.empty()) kept->reference.notes.push_back("the captured kernel itself: " + zones.wrote);
    if (!zones.reads.empty()) kept->reference.notes.push_back("the captured kernel itself: " + zones.reads);
  }
  kept_ = std::move(kept);
  return {};
}

Status Server::answer_run(const replay::Request& request, const Deadline& deadline, replay::Answer& answer) {
  answer.variants.resize(request.variants.size());
  for (std::size_t i = 0; i < request.variants.size(); ++i)
    answer.variants[i].label = request.variants[i].label;
  KLAB_TRY_VOID(check_conditions(request));
  KLAB_TRY_VOID(load(request, deadline, answer));
  const replay::Conditions& asked = request.conditions;
  // The probe loads the capture too: when both do not fit on the device, it comes first and alone.
  const std::uint64_t room = gpu_->abilities().max_allocation;
  if ((request.validate || asked.mode == Mode::sustained) && probes_.count(capture_key_) == 0 &&
      answer.device.type == "discrete" && loaded_->captured_bytes() > room / 5 * 2) {
    kept_.reset();
    loaded_->give_back();
    (void)probed(request, deadline);
    KLAB_TRY_VOID(loaded_->place_again(0, deadline));
  }
  Run run{request, deadline, answer, *loaded_, {}, {}, {}};
  run.busy_before_ns = gpu_->busy_ns();
  const std::size_t n = request.variants.size();
  run.variants.resize(n);
  run.judged.resize(n);
  run.writes.resize(n);
  run.flush = flush_bytes(asked, gpu_->abilities(), answer);
  if (!asked.memory.empty() && !loaded_->dispatch().regions.empty())
    answer.notes.push_back(fmt::format("memory asked: {}, got: {}", asked.memory, loaded_->placed(0).pool));

  run.prepare_variants();
  if (!run.any()) {
    answer.outcome = answer.variants[0].outcome;
    answer.error = answer.variants[0].error;
    return {};
  }
  const bool sustained = asked.mode == Mode::sustained;
  const Probed none;
  const Probed& probe = request.validate || sustained ? probed(request, deadline) : none;
  KLAB_TRY_VOID(keep_reference(request, probe, deadline));
  run.reference_ = &kept_->reference;
  if (request.validate) {
    say("validating");
    KLAB_TRY_VOID(run.judge_all(probe));
  } else {
    KLAB_TRY_VOID(run.observe_all());
  }
  if (sustained) {
    KLAB_TRY(const auto why, reads_what_it_writes(*loaded_, kept_->reference, kept_->baseline, deadline));
    if (!why.empty())
      return fail(ErrorCode::mode_mismatch, "sustained is refused: " + why, "use the isolated mode");
    for (std::size_t i = 0; i < n; ++i) {
      if (!run.variants[i] || run.variants[i]->is_baseline) continue;
      KLAB_TRY(const auto variant_why,
               reads_what_it_writes(*loaded_, Reference{}, *run.variants[i], deadline));
      if (!variant_why.empty())
        run.fail_variant(i, Error{ErrorCode::mode_mismatch, "sustained is refused: " + variant_why,
                                  "use the isolated mode"});
    }
  }

  if (asked.cache == CacheState::rotating) {
    say("loading copies of the capture");
    KLAB_TRY_VOID(run.rotate());
  }
  if (request.verb == "compare") {
    KLAB_TRY_VOID(compare(run, probe));
  }
  const std::uint32_t repeats = request.verb == "compare" ? 0 : asked.mode == Mode::repeats ? asked.repeats : 1;
  std::mt19937 random(request.seed);
  std::uint32_t ran = 0;
  for (std::uint32_t repeat = 0; repeat < repeats; ++repeat) {
    if (repeat != 0) {
      KLAB_TRY_VOID(deadline.check("repeating the replay"));
      for (auto& v : run.variants) v.reset();
      for (Judged& j : run.judged) j.own.reset();
      // What may be poisoned stays the same, and variants were judged in the first placement.
      KLAB_TRY_VOID(place_anew(request, probe, deadline, static_cast<std::uint32_t>(random())));
      run.reference_ = &kept_->reference;
      run.prepare_variants();
    }
    std::vector<std::size_t> before(n);
    for (std::size_t i = 0; i < n; ++i) before[i] = answer.variants[i].samples_ns.size();
    const Status timed = run.time_once(asked, !request.counters.empty() && repeat + 1 == repeats,
                                       [&](std::uint64_t done, std::uint64_t total) {
                                         say("timing", repeat * total + done, repeats * total);
                                       });
    if (!timed) {
      answer.ran.repeats = asked.mode == Mode::repeats ? ran : asked.repeats;
      return timed;
    }
    ++ran;
    if (asked.mode == Mode::repeats)
      for (std::size_t i = 0; i < n; ++i) {
        const auto& samples = answer.variants[i].samples_ns;
        if (samples.size() == before[i]) continue;
        double sum = 0;
        for (std::size_t k = before[i]; k < samples.size(); ++k) sum += samples[k];
        answer.variants[i].replay_averages_ns.push_back(sum /
                                                        static_cast<double>(samples.size() - before[i]));
      }
  }
  const bool emulated = bundle::is_emulated(answer.device);
  if (request.verb == "replay" && emulated) run.note("this device is emulated: its times mean nothing");
  if (request.verb == "replay" && !emulated)
    if (const Status told = run.measure_throughputs(); !told) {
      if (gpu_->lost()) KLAB_TRY_VOID(run.take(0, told.error()));
      run.note("launches back to back were not measured: " + told.error().what);
    }
  if (asked.mode == Mode::repeats) {
    answer.ran.repeats = ran;
    if (answer.address_mode == replay::AddressMode::exact)
      answer.notes.push_back("repeats vary physical pages only: virtual addresses are the captured ones");
  }
  // What ran: launches really timed, of the variant with the fewest.
  std::size_t fewest = SIZE_MAX;
  for (std::size_t i = 0; i < n; ++i) {
    auto& a = answer.variants[i];
    if (!run.variants[i]) continue;
    fewest = std::min(fewest, a.samples_ns.size() / std::max<std::uint32_t>(1, ran));
    if (request.validate)
      a.validation = to_validation(run.judged[i], *run.reference_, *loaded_, request.seed);
    else if (!run.judged[i].evidence.outside.empty())
      a.validation.reason += "; " + run.judged[i].evidence.outside;
  }
  answer.ran.iterations = fewest == SIZE_MAX ? 0 : static_cast<std::uint32_t>(fewest);
  // The default flush of `cold` stays 0 here, so that equal requests stay comparable; the notes give its
  // size.
  answer.ran.flush_mb = asked.flush_mb != 0 ? run.flush >> 20 : 0;
  if (!run.any() || n == 1) {
    answer.outcome = answer.variants[0].outcome;
    answer.error = answer.variants[0].error;
  }
  return {};
}

}  // namespace klab::worker
