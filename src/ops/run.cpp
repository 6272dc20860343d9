// SPDX-License-Identifier: Apache-2.0
#include "ops/run.h"

#include <fmt/format.h>

#include "bundle/emulated.h"
#include "ops/floors.h"

namespace klab::ops {
namespace {

std::string device_line(const bundle::DeviceIdentity& d) {
  return fmt::format("{} {} {} {}", d.api, d.name, d.driver_version, d.uuid);
}

ErrorCode code_of(replay::Outcome outcome) {
  switch (outcome) {
    case replay::Outcome::compile_failed:
      return ErrorCode::compile_failed;
    case replay::Outcome::missing_symbol:
      return ErrorCode::missing_symbol;
    case replay::Outcome::launch_failed:
      return ErrorCode::launch_failed;
    case replay::Outcome::device_fault:
      return ErrorCode::device_fault;
    case replay::Outcome::timeout:
      return ErrorCode::timeout;
    case replay::Outcome::out_of_memory:
      return ErrorCode::out_of_memory;
    case replay::Outcome::worker_lost:
      return ErrorCode::worker_lost;
    case replay::Outcome::refused:
      return ErrorCode::unsupported;
    default:
      return ErrorCode::internal;
  }
}

Error error_of(replay::Outcome outcome, const std::optional<Error>& error, const fs::path& bundle = {}) {
  if (error && (error->code == ErrorCode::bundle_corrupt || error->code == ErrorCode::invalid_data) &&
      !bundle.empty())
    return damaged(*error, bundle);
  if (error) return *error;
  return Error{code_of(outcome), fmt::format("the replay ended with {}", to_string(outcome)), "", 0};
}

/// Mode honesty: what ran must be what was asked. How many launches a comparison has is its protocol's to say.
Status check_mode(const replay::Conditions& asked, const replay::Answer& answer, bool counted) {
  const replay::Conditions& ran = answer.ran;
  std::string differs;
  auto compare = [&](const char* what, const std::string& a, const std::string& b) {
    if (a != b) differs += fmt::format("{}{}: asked {}, ran {}", differs.empty() ? "" : "; ", what, a, b);
  };
  compare("mode", to_string(asked.mode), to_string(ran.mode));
  compare("cache", to_string(asked.cache), to_string(ran.cache));
  compare("memory", asked.memory.empty() ? "as captured" : asked.memory,
          ran.memory.empty() ? "as captured" : ran.memory);
  if (counted && ran.iterations != asked.iterations)
    compare("iterations", std::to_string(asked.iterations), std::to_string(ran.iterations));
  if (asked.flush_mb != 0) compare("flush", std::to_string(asked.flush_mb), std::to_string(ran.flush_mb));
  if (asked.mode == replay::Mode::repeats)
    compare("repeats", std::to_string(asked.repeats), std::to_string(ran.repeats));
  if (differs.empty()) return {};
  return fail(ErrorCode::mode_mismatch, "the worker did not run the conditions that were asked: " + differs,
              "the result is refused; is klab-worker of the same version as klab?");
}

/// The captured code is checked against its hash before anything reads it.
Status check_code(const OpenBundle& opened, std::uint32_t dispatch) {
  if (auto code = opened.reader.code(opened.dispatch(dispatch).code); !code)
    return fail(damaged(code.error(), opened.reader.path()));
  return {};
}

std::string code_path(const OpenBundle& opened, std::uint32_t dispatch, const replay::VariantCode& variant) {
  if (!variant.code.empty()) return variant.code;
  const bundle::Manifest& manifest = opened.reader.manifest();
  const std::uint32_t code = manifest.dispatches[dispatch].code;
  return code < manifest.code.size() ? (opened.reader.path() / manifest.code[code].file).string() : "";
}

/// Everything that a run's answer depends on, but for the device and its driver, which are compared by
/// themselves.
std::string run_key(const OpenBundle& opened, const ReplayRequest& request, const replay::VariantCode& code,
                    const std::string& code_hash) {
  return to_string(hash_text(Json{
      {"bundle", opened.id},
      {"dispatch", request.dispatch},
      {"code", code_hash},
      {"launch", code.launch},
      {"conditions", request.conditions},
      {"counters", request.counters},
      {"validate", request.validate},
      {"checks", check_arguments(request.checks)},
      {"work", work_arguments(request.work)},
      {"device", request.device},
      {"protocol", replay::kProtocolVersion},
      {"klab", KLAB_VERSION}}.dump()));
}

/// A stored answer, if the device that made it is here with the same driver.
Result<bool> answer_from_store(Lab& lab, session::Store& store, const std::string& key, Replayed& done) {
  KLAB_TRY(const auto row, store.cached_run(key));
  if (!row) return false;
  KLAB_TRY(const Json devices, list_devices(lab));
  bool here = false;
  for (const Json& one : devices)
    if (one.contains("identity"))
      if (const auto identity = decode_json<bundle::DeviceIdentity>(one["identity"], "device"))
        here = here || device_line(*identity) == row->device;
  if (!here) return false;
  auto answer = decode_json<replay::Answer>(row->answer, "stored run");
  if (!answer || answer->variants.size() != 1) return false;
  done.answer = std::move(*answer);
  done.answer.notes.push_back(fmt::format("nothing ran: this is run {} of {}", row->id, row->at));
  done.run = row->id;
  done.from_store = true;
  return true;
}

/// What the samples say, under the conditions that ran.
measure::Summary summary_of(const replay::Answer& answer) {
  const replay::VariantAnswer& v = answer.variants.front();
  return measure::summarise(answer.ran.mode == replay::Mode::repeats && !v.replay_averages_ns.empty()
                                ? v.replay_averages_ns
                                : v.samples_ns);
}

}  // namespace

Result<Json> list_devices(Lab& lab) {
  KLAB_TRY(replay::Answer answer, lab.ask({.verb = "devices", .budget_s = 60}));
  if (answer.outcome != replay::Outcome::ok) return fail(error_of(answer.outcome, answer.error));
  return answer.devices;
}

Result<Replayed> replay_dispatch(Lab& lab, const ReplayRequest& request) {
  KLAB_TRY(OpenBundle opened, open_bundle(lab, request.bundle));
  KLAB_TRY_VOID(check_dispatch(opened, request.dispatch));
  KLAB_TRY(session::Store * store, lab.store());
  KLAB_TRY(Chosen chosen, choose_variant(lab, request.bundle, request.variant));
  KLAB_TRY_VOID(check_code(opened, request.dispatch));
  KLAB_TRY(const calibrate::Work work, parse_work(request.work));
  Replayed done;
  done.kernel = opened.dispatch(request.dispatch).name;
  done.dispatch = request.dispatch;
  KLAB_TRY(done.code, reflect_code(lab, code_path(opened, request.dispatch, chosen.code)));
  if (done.code.cuda) {
    const std::string& entry = opened.dispatch(request.dispatch).entry_point;
    if (const auto* k = done.code.cuda->kernel(chosen.code.launch.entry_point.value_or(entry)))
      done.kernel_facts = *k;
  }
  if (!request.launch.empty()) {
    KLAB_TRY(const replay::LaunchOverride more,
             parse_launch(request.launch, done.code.cuda ? nullptr : &done.code.reflection,
                          opened.reader.manifest().device.api));
    merge_launch(chosen.code.launch, more);
  }
  KLAB_TRY(const std::string code_bytes,
           read_file(code_path(opened, request.dispatch, chosen.code), 1ull << 30));
  const std::string key = run_key(opened, request, chosen.code, to_string(hash_text(code_bytes)));
  if (request.cached) {
    KLAB_TRY(const bool found, answer_from_store(lab, *store, key, done));
    if (found) {
      done.summary = summary_of(done.answer);
      done.roofline = place_run(done.answer, 0, work);
      return done;
    }
  }
  replay::Request job{.verb = "replay",
                      .bundle = fs::absolute(opened.reader.path()).string(),
                      .dispatch = request.dispatch,
                      .device = request.device,
                      .variants = {chosen.code},
                      .conditions = request.conditions,
                      .counters = request.counters,
                      .validate = request.validate,
                      .seed = request.checks.seed,
                      .budget_s = request.budget_s};
  if (request.validate) {
    KLAB_TRY(job.checks, resolve_checks(lab, opened, request.dispatch, request.checks));
  }
  KLAB_TRY(done.answer, lab.ask(job));

  session::RunRow run{.bundle = opened.id,
                      .dispatch = request.dispatch,
                      .variant = chosen.row ? chosen.row->id : "",
                      .device = device_line(done.answer.device),
                      .conditions = done.answer.ran,
                      .outcome = done.answer.outcome,
                      .session = lab.session,
                      .cache_key = key};
  if (run.outcome == replay::Outcome::ok && done.answer.variants.size() != 1)
    run.outcome = replay::Outcome::failed;
  if (run.outcome == replay::Outcome::ok) run.outcome = done.variant().outcome;
  const bool ran = run.outcome == replay::Outcome::ok;
  Status honest = ran ? check_mode(request.conditions, done.answer, true) : Status{};
  if (!honest) run.outcome = replay::Outcome::refused;
  if (ran) {
    done.summary = summary_of(done.answer);
    done.roofline = place_run(done.answer, 0, work);
    run.median_ns = done.summary.median_ns;
  }
  run.answer = done.answer;
  if (ran && honest) {
    KLAB_TRY(const auto before, store->previous_run(run));
    if (before && before->median_ns > 0 && !bundle::is_emulated(done.answer.device))
      done.delta = Delta{before->id, before->variant.empty() ? "baseline" : before->variant, before->at,
                         run.median_ns / before->median_ns};
  }
  KLAB_TRY(done.run, store->add_run(run));
  if (!honest) return fail(honest.error());
  if (!ran) {
    const auto& variants = done.answer.variants;
    return fail(
        error_of(run.outcome, done.answer.error || variants.empty() ? done.answer.error : variants[0].error));
  }
  return done;
}

Result<Compared> compare_variants(Lab& lab, const CompareRequest& request) {
  KLAB_TRY(OpenBundle opened, open_bundle(lab, request.bundle));
  KLAB_TRY_VOID(check_dispatch(opened, request.dispatch));
  KLAB_TRY(session::Store * store, lab.store());
  KLAB_TRY_VOID(check_code(opened, request.dispatch));
  KLAB_TRY(Chosen a, choose_variant(lab, request.bundle, request.against));
  KLAB_TRY(Chosen b, choose_variant(lab, request.bundle, request.variant));
  if (!b.row)
    return fail(ErrorCode::usage, "the variant to judge is the baseline itself",
                "give --variant a name, an id or a file");
  replay::Request job{.verb = "compare",
                      .bundle = fs::absolute(opened.reader.path()).string(),
                      .dispatch = request.dispatch,
                      .device = request.device,
                      .variants = {a.code, b.code},
                      .conditions = request.conditions,
                      .seed = request.checks.seed,
                      .comparing = {.measure_s = request.measure_s, .margin = request.margin, .alpha = request.alpha, .floors = known_floors()},
                      .budget_s = request.budget_s};
  // Validation, perhaps the floor, the measuring itself; each may overrun a little.
  if (const double needed = 30 + 2.6 * request.measure_s; request.measure_s > 0 && needed > request.budget_s)
    return fail(ErrorCode::usage,
                fmt::format("measuring for {:g} s needs a worker budget of {:.0f} s, there are {:g}", request.measure_s, needed,
                            request.budget_s),
                "a smaller --budget, or a larger --worker-budget");
  job.conditions.iterations = 1;  // how many there are is the protocol's to say
  KLAB_TRY(job.checks, resolve_checks(lab, opened, request.dispatch, request.checks));
  KLAB_TRY(const calibrate::Work work, parse_work(request.work));
  Compared done;
  done.kernel = opened.dispatch(request.dispatch).name;
  done.dispatch = request.dispatch;
  KLAB_TRY(done.answer, lab.ask(job));
  if (const Status kept = keep_floor(done.answer.comparison); !kept)
    done.answer.notes.push_back("the floor was not kept for the next comparison: " + kept.error().what);
  const auto& variants = done.answer.variants;
  // Refused as a whole, by neither variant's fault.
  if (done.answer.outcome != replay::Outcome::ok && done.answer.error && variants.size() == 2 &&
      variants[0].outcome == replay::Outcome::ok && variants[1].outcome == replay::Outcome::ok)
    return fail(error_of(done.answer.outcome, done.answer.error, opened.reader.path()));
  session::VerdictRow verdict{.bundle = opened.id, .dispatch = request.dispatch, .variant = b.row->id};
  verdict.session = lab.session;
  verdict.conditions = done.answer.ran;
  if (a.row) verdict.against = a.row->id;
  if (variants.size() != 2 || variants[0].outcome != replay::Outcome::ok) {
    // The whole request failed. Was it the variant (a fault ends the worker before it can say whose)?
    const bool by_b = variants.size() == 2 && variants[1].outcome != replay::Outcome::ok;
    const Error error = error_of(
        done.answer.outcome, !variants.empty() && variants[0].error ? variants[0].error : done.answer.error);
    if (!by_b &&
        (done.answer.outcome == replay::Outcome::ok || done.answer.outcome == replay::Outcome::refused ||
         done.answer.outcome == replay::Outcome::failed))
      return fail(error);
    verdict.correctness = validate::Correctness::failed;
    verdict.reason = fmt::format("{}: {}", to_string(by_b ? variants[1].outcome : done.answer.outcome),
                                 by_b && variants[1].error ? variants[1].error->what : error.what);
  } else if (variants[1].outcome != replay::Outcome::ok) {
    verdict.correctness = validate::Correctness::failed;
    verdict.reason =
        fmt::format("{}: {}", to_string(variants[1].outcome),
                    variants[1].error ? variants[1].error->what : "no further word from the driver");
  } else {
    if (const Status honest = check_mode(job.conditions, done.answer, false); !honest) {
      // Refused, and stored as that: no verdict comes of it.
      KLAB_TRY_VOID(store->add_run({.bundle = opened.id,
                                    .dispatch = request.dispatch,
                                    .variant = b.row->id,
                                    .device = device_line(done.answer.device),
                                    .conditions = done.answer.ran,
                                    .outcome = replay::Outcome::refused,
                                    .answer = done.answer,
                                    .session = lab.session}));
      return fail(honest.error());
    }
    for (std::size_t i = 0; i < 2; ++i)
      if (!variants[i].samples_ns.empty()) done.roofline[i] = place_run(done.answer, i, work);
    verdict.correctness = variants[1].validation.correctness;
    verdict.reason = variants[1].validation.reason;
    done.a = measure::summarise(variants[0].samples_ns);
    done.b = measure::summarise(variants[1].samples_ns);
    if (verdict.correctness == validate::Correctness::correct) {
      const bool same_launch = Json(a.code.launch) == Json(b.code.launch);
      if (variants[0].code_hash == variants[1].code_hash && same_launch) {
        verdict.speed = validate::Speed::identical;
        verdict.reason += "; same code and launch, so times are not compared";
      } else if (done.answer.comparison.is_object()) {
        KLAB_TRY(done.comparison, decode_json<measure::Comparison>(done.answer.comparison, "the worker's comparison"));
        const measure::Conclusion& c = done.comparison->conclusion;
        from_string(to_string(c.verdict), verdict.speed);
        verdict.ratio = c.interval.ratio;
      } else if (bundle::is_emulated(done.answer.device)) {
        verdict.reason += "; the device is emulated, so times are not compared";
      }
    }
  }
  verdict.detail = done.answer;
  for (std::size_t i = 0; i < 2; ++i)
    if (!done.roofline[i].is_null()) verdict.detail["roofline"][i == 0 ? "a" : "b"] = done.roofline[i];
  KLAB_TRY(verdict.id, store->add_verdict(verdict));
  done.verdict = std::move(verdict);
  return done;
}

void to_json(Json& j, const Replayed& v) {
  const replay::VariantAnswer& variant = v.variant();
  Json code = v.kernel_facts ? Json(*v.kernel_facts) : Json(v.code.reflection);
  // Long texts are not part of a run; `klab inspect` has them.
  code.erase("source_text");
  j = Json{{"run", v.run},
           {"kernel", v.kernel},
           {"dispatch", v.dispatch},
           {"variant", variant.label},
           {"outcome", variant.outcome},
           {"device", v.answer.device},
           {"asked", v.answer.asked},
           {"ran", v.answer.ran},
           {"samples_ns", variant.samples_ns},
           {"summary", v.summary},
           {"captured_bytes", v.answer.captured_bytes},
           {"restored_bytes_per_iteration", variant.restored_bytes_per_iteration},
           {"written_bytes", variant.written_bytes},
           {"address_mode", v.answer.address_mode},
           {"address_by", v.answer.address_by},
           {"rewritten_words", v.answer.rewritten_words},
           {"resources", {{"driver", variant.resources}, {"code", std::move(code)}}},
           {"code_hash", variant.code_hash},
           {"validation", variant.validation},
           {"notes", v.answer.notes},
           {"wall_ms", v.answer.wall_ms}};
  if (!v.roofline.is_null()) j["roofline"] = v.roofline;
  if (v.from_store) j["from_store"] = true;
  if (!variant.replay_averages_ns.empty()) j["replay_averages_ns"] = variant.replay_averages_ns;
  if (!variant.counters.is_null()) j["counters"] = variant.counters;
  if (!variant.throughput.is_null()) j["throughput"] = variant.throughput;
  if (v.delta)
    j["delta"] = {
        {"run", v.delta->run}, {"variant", v.delta->variant}, {"at", v.delta->at}, {"ratio", v.delta->ratio}};
}

void to_json(Json& j, const Compared& v) {
  j = Json{{"kernel", v.kernel},
           {"dispatch", v.dispatch},
           {"verdict", v.verdict},
           {"device", v.answer.device},
           {"asked", v.answer.asked},
           {"ran", v.answer.ran},
           {"address_mode", v.answer.address_mode},
           {"a", v.a},
           {"b", v.b},
           {"variants", v.answer.variants},
           {"notes", v.answer.notes},
           {"outcome", v.answer.outcome}};
  if (!v.roofline[1].is_null()) j["roofline"] = {{"a", v.roofline[0]}, {"b", v.roofline[1]}};
  if (!v.comparison) return;
  j["comparison"] = v.answer.comparison;
  j["ratio"] = v.comparison->conclusion.interval;
  j["headline"] = v.comparison->conclusion.headline;
}

}  // namespace klab::ops
