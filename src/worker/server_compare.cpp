// SPDX-License-Identifier: Apache-2.0
// The verb compare after both variants were judged: the floor of this device where it is not known, then the contest.
#include <algorithm>
#include <random>

#include <fmt/format.h>

#include "base/units.h"
#include "bundle/emulated.h"
#include "worker/contest.h"
#include "worker/server_run.h"

namespace klab::worker {
namespace {

constexpr std::uint64_t kMostPadding = 4ull << 20;
constexpr std::size_t kMostSamples = 20000;  // of each variant in the answer

/// Evenly thinned: the distribution stays, the message does not grow.
std::vector<double> thinned(const std::vector<double>& samples) {
  if (samples.size() <= kMostSamples) return samples;
  std::vector<double> some;
  for (std::size_t i = 0; i < kMostSamples; ++i) some.push_back(samples[i * samples.size() / kMostSamples]);
  return some;
}

/// What a new placement changes.
std::string placement_sentence(replay::AddressMode mode) {
  return mode == replay::AddressMode::exact
             ? "physical pages and what lies before them; virtual addresses are the captured ones"
             : "order and place of all allocations, with random padding, and physical pages";
}

/// The larger side of an interval of two copies of one module: what their times can differ by and mean nothing.
double floor_of(const measure::Conclusion& c) {
  return std::max({0.0, 1 - c.interval.low, c.interval.high - 1});
}

}  // namespace

Status Server::place_anew(const replay::Request& request, const Probed& probe, const Deadline& deadline, std::uint32_t seed) {
  std::mt19937 random(seed);
  const bool moves = loaded_->address_mode() == replay::AddressMode::relocated;
  kept_->baseline = Variant();
  if (moves) {
    // Rewritten pointers are part of what comes out: the reference holds for one placement only.
    kept_->reference = Reference();
    kept_->key.clear();
  } else {
    Reference& r = kept_->reference;
    r.restorer.reset();
    r.blanker.reset();
    r.check.reset();
    for (MutatedCase& c : r.cases) c.states.reset();
    kept_->states_dropped = true;
  }
  KLAB_TRY_VOID(loaded_->place_again((1 + random() % (kMostPadding / 4096)) * 4096, deadline, random()));
  KLAB_TRY(kept_->baseline, make_variant(*loaded_, {}));
  if (moves) {
    KLAB_TRY(kept_->reference, make_reference(*loaded_, kept_->baseline, probe,
                                              {.full = request.validate,
                                               .seed = request.seed,
                                               .checks = request.checks,
                                               .dispatch = request.dispatch},
                                              deadline));
  }
  return put_on_device(kept_->reference, *loaded_);
}

Status Server::compare(Run& run, const Probed& probe) {
  const replay::Request& request = run.request;
  replay::Answer& answer = run.answer;
  const replay::Comparing& how = request.comparing;
  if (!run.variants[0] || !run.variants[1] || how.measure_s <= 0) return {};
  if (request.validate) {
    const auto verdict = to_validation(run.judged[1], *run.reference_, *loaded_, request.seed);
    if (verdict.correctness != validate::Correctness::correct) return {};
  }
  if (how.identity && answer.variants[0].code_hash == answer.variants[1].code_hash &&
      Json(request.variants[0].launch) == Json(request.variants[1].launch))
    return {};
  if (bundle::is_emulated(answer.device)) {
    run.note("this device is emulated: its times mean nothing and are not compared");
    return {};
  }

  KLAB_TRY(auto clock, ClockMeter::create(*gpu_));
  Observer observer(answer.device);
  std::uint32_t layouts = request.seed;
  std::optional<Restorer> larger;
  // What the two write of the capture itself: redzones lie elsewhere in each placement, and a right variant leaves them.
  ChunkList writes = run.reference_->written;
  for (const ChunkList& w : run.writes) writes = merge(writes, w);
  std::erase_if(writes, [&](ChunkId id) { return loaded_->is_guard(id); });
  std::vector<replay::VariantCode> codes = request.variants;

  const auto place = [&](std::uint32_t, std::vector<Timed>& pair) -> Result<TimingSetup> {
    larger.reset();
    for (auto& v : run.variants) v.reset();
    for (Judged& j : run.judged) j.own.reset();
    KLAB_TRY_VOID(place_anew(request, probe, run.deadline, ++layouts * 2654435761u));
    const Reference& reference = kept_->reference;
    run.reference_ = &reference;
    for (std::size_t i = 0; i < 2; ++i) {
      KLAB_TRY(run.variants[i], make_variant(*loaded_, codes[i]));
      pair[i].variant = &*run.variants[i];
      pair[i].check = request.validate && reference.unusable.empty() && reference.check ? &*reference.check : nullptr;
    }
    if (run.rotation) {
      KLAB_TRY_VOID(run.rotation->place_again(layouts * 40503u, run.deadline));
      KLAB_TRY_VOID(run.rotation->prepare(codes, writes));
    }
    if (writes != reference.written) {
      KLAB_TRY(larger, run.restorer_for(writes));
    }
    return TimingSetup{.loaded = loaded_.get(),
                       .restorer = larger ? &*larger : &*reference.restorer,
                       .restored = writes,
                       .first_image = reference.poisoned() ? 1u : 0u,
                       .every_launch = true,
                       .flush_bytes = run.flush,
                       .rotation = run.rotation.get(),
                       .seed = request.seed};
  };
  ContestSetup setup{.how = &how,
                     .sustained = request.conditions.mode == replay::Mode::sustained,
                     .seed = request.seed,
                     .clock = clock ? &*clock : nullptr,
                     .observer = &observer,
                     .place = place,
                     .stop = hooks_.stop};
  Json floor = Json::object();
  const auto known = [&](double median_ns) -> Result<double> {
    const std::string name = floor_class(median_ns, setup.sustained ? "sustained" : to_string(answer.ran.cache));
    const std::string key = fmt::format("{} {} {}", answer.device.uuid.empty() ? answer.device.name : answer.device.uuid,
                                        answer.device.driver_version, name);
    const auto it = how.floors.find(key);
    floor = Json{{"class", name}, {"key", key}, {"measured", false}};
    if (it != how.floors.end() && (it->second.budget_s >= how.measure_s || it->second.value <= how.margin)) {
      floor.update(Json(it->second));
      return it->second.value;
    }
    // Two copies of A's module, through all of this.
    codes[1] = codes[0];
    ContestSetup copies = setup;
    Observer apart(answer.device);  // what it sees is not the comparison's
    copies.observer = &apart;
    copies.progress = [&](const std::string& text, std::uint64_t done, std::uint64_t total) {
      say("measuring what two copies of one module differ by here: " + text, done, total);
    };
    auto done = run_contest(copies, how.measure_s, [](double) -> Result<double> { return 0.0; }, run.deadline);
    codes = request.variants;
    if (!done) return fail(done.error());
    const double value = floor_of(done->comparison.conclusion);
    floor.update({{"value", value},
                  {"measured", true},
                  {"keep", !done->comparison.interrupted && done->comparison.conclusion.interval.bounded() &&
                               done->comparison.conclusion.verdict != measure::Verdict::unstable},
                  {"budget_s", how.measure_s},
                  {"interval", done->comparison.conclusion.interval},
                  {"placements", done->comparison.conclusion.placements}});
    return value;
  };
  setup.progress = [&](const std::string& text, std::uint64_t done, std::uint64_t total) { say("comparing: " + text, done, total); };
  if (hooks_.progress) hooks_.progress({.text = "comparing", .keeps = true});
  auto done = run_contest(setup, how.measure_s, known, run.deadline);
  if (!done) {
    if (!gpu_->lost()) return fail(done.error());
    return run.take(1, done.error());
  }
  for (std::size_t i = 0; i < 2; ++i) {
    Timed& t = done->pair[i];
    auto& evidence = run.judged[i].evidence;
    evidence.launches_checked += t.launches_checked;
    if (evidence.wrong_launch.empty()) evidence.wrong_launch = t.wrong_launch;
    if (evidence.inconsistent.empty()) evidence.inconsistent = done->inconsistent;
    answer.variants[i].restored_bytes_per_iteration = setup.sustained ? 0 : loaded_->bytes_of(writes);
    answer.variants[i].written_bytes = loaded_->bytes_of(run.writes[i]);
    if (t.samples_ns.size() > kMostSamples)
      run.note(fmt::format("{}: {} of {} times are kept", answer.variants[i].label, kMostSamples, t.samples_ns.size()));
    answer.variants[i].samples_ns = thinned(t.samples_ns);
  }
  if (!done->outside.empty()) run.blame({0, 1}, 1, done->outside);
  answer.comparison = done->comparison;
  answer.comparison.update(done->facts);
  answer.comparison["floor"] = floor;
  answer.comparison["placement"] = placement_sentence(loaded_->address_mode());
  answer.comparison["environment"] = observer.json();
  answer.comparison["clocks"] = clock ? "read on the processors around each letter"
                                : observer.observes_clocks() ? "observed by " + observer.json().value("source", "")
                                                             : "not observed";
  if (floor.value("measured", false) && !floor.value("keep", true))
    run.note("the device was disturbed while its floor was measured: it will be measured again");
  if (!kept_->reference.check && request.validate)
    run.note("timed launches were not checked: " + std::string(request.checks.level == validate::Level::custom
                                                                   ? "what is right is the checker's to say"
                                                                   : "there is no check on this device for it"));
  return {};
}

}  // namespace klab::worker
