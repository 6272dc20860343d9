// SPDX-License-Identifier: Apache-2.0
// session.trace, .capture, .run, .compare: the verbs that start the user's program or use the device.
#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "ops/allowed.h"
#include "ops/session_files.h"
#include "ops/session_verbs.h"
#include "ops/session_work.h"

namespace klab::ops {
namespace {

using session::Move;

constexpr double kLongestProgram = 86400;

Status check_limit(double limit_s) {
  if (limit_s > 0 && limit_s <= kLongestProgram) return {};
  return fail(ErrorCode::usage, "limit_s: from 0 to 86400 seconds", "600 is the default");
}

// A name as a POSIX extended expression that matches just it.
std::string literal(const std::string& name) {
  std::string pattern = "^";
  for (const char c : name) {
    if (std::string_view(".[\\*^$+?(){}|").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern + "$";
}

/// The same arguments for the verb without a session: its own members less the session's.
Json arguments_for(const Json& arguments, const fs::path& bundle,
                   std::initializer_list<const char*> less = {}) {
  Json j = arguments;
  j.erase("session");
  for (const char* name : less) j.erase(name);
  j["bundle"] = bundle.string();
  return j;
}

// `session` of arguments that another decoder checks the rest of.
Result<std::string> session_of(const Json& arguments, std::string_view verb) {
  std::string id;
  if (!arguments.is_object() || !arguments.contains("session") || !arguments["session"].is_string())
    return fail(ErrorCode::usage, fmt::format("{}: session is missing", verb),
                "session.list gives their ids");
  if (arguments.contains("bundle"))
    return fail(ErrorCode::usage, fmt::format("{}: the bundle is the session's own", verb),
                "leave bundle out");
  return arguments["session"].get<std::string>();
}

/// A variant by name or id; never a path.
Result<std::string> variant_id(SessionWork& work, const std::string& reference) {
  if (reference.empty() || reference == "baseline") return std::string("baseline");
  KLAB_TRY(const session::VariantRow row, work.store.variant(work.row.bundle, reference));
  KLAB_TRY_VOID(work.store.history().link_variant(work.row.id, row.id));
  return row.id;
}

Status take_budget(const SessionWork& work, const Json& arguments, double& budget_s) {
  const double most = work.settings.worker_budget_s;
  if (!arguments.contains("budget_s")) budget_s = most;
  if (budget_s <= 0) return fail(ErrorCode::usage, "budget_s: more than 0 seconds");
  if (budget_s > most)
    return fail(ErrorCode::cap_reached,
                fmt::format("a worker has {} s in this session, {} were asked for", most, budget_s),
                "the user raises worker_budget_s in klab.toml");
  return {};
}

/// A session runs no program that its owner has not named, and reads no file outside its roots.
Status confine_checks(const SessionWork& work, CheckText& checks) {
  checks.type_defaults = work.settings.types;
  if (!checks.checker.empty()) {
    const auto it = work.settings.checkers.find(checks.checker[0]);
    if (checks.checker.size() != 1 || it == work.settings.checkers.end()) {
      std::string names;
      for (const auto& [name, argv] : work.settings.checkers) names += (names.empty() ? "" : ", ") + name;
      return fail(ErrorCode::not_allowed, fmt::format("a session has no checker {}", checks.checker[0]),
                  names.empty() ? "its owner names some in klab.toml: [checkers]" : "klab.toml names: " + names);
    }
    checks.checker = it->second;
  }
  for (std::string& one : checks.references) {
    const auto at = one.find('=');
    if (at == std::string::npos) continue;  // said by resolve_checks
    KLAB_TRY(const Allowed file, open_allowed(work.row.roots, one.substr(at + 1), PathKind::file));
    one = one.substr(0, at + 1) + file.path.string();
  }
  return {};
}

}  // namespace

Result<Json> session_trace(Lab& lab, const Json& arguments) {
  std::string id;
  double limit_s = 600;
  KLAB_TRY_VOID(Fields(arguments, "session.trace").need("session", id).take("limit_s", limit_s).done());
  KLAB_TRY_VOID(check_limit(limit_s));
  return work_in_session(lab, id, "trace", Move::trace, arguments, [&](SessionWork& work) -> Result<Json> {
    KLAB_TRY(const capture::Target target, session_target(work, limit_s));
    KLAB_TRY_VOID(make_folders(work.folder));
    const fs::path file = work.folder / "dispatches.jsonl";
    KLAB_TRY(auto held, lab.hold("trace"));
    KLAB_TRY(const Traced traced, trace_dispatches(lab, target, file));
    work.said["dispatches"] = traced.list.rows.size();
    Json answer = dispatches_json(traced.list, traced.file);
    answer["file"] = file.string();
    return answer;
  });
}

Result<Json> session_capture(Lab& lab, const Json& arguments) {
  std::string id, kernel, max_bytes;
  std::optional<std::uint64_t> nth;
  capture::CaptureRequest request;
  double limit_s = 600;
  bool stop = false;
  KLAB_TRY_VOID(Fields(arguments, "session.capture")
                    .need("session", id)
                    .take("kernel", kernel)
                    .take("nth", nth)
                    .take("scope", request.scope)
                    .take("max_bytes", request.max_bytes)
                    .take("dry_run", request.preview)
                    .take("stop_after_capture", stop)
                    .take("limit_s", limit_s)
                    .done());
  KLAB_TRY_VOID(check_limit(limit_s));
  const Move move = request.preview ? Move::trace : Move::capture;
  return work_in_session(
      lab, id, request.preview ? "capture preview" : "capture", move, arguments,
      [&](SessionWork& work) -> Result<Json> {
        KLAB_TRY(request.target, session_target(work, limit_s));
        request.kernel = kernel;
        std::uint64_t wanted = nth.value_or(1);
        if (kernel.empty() && work.row.dispatch.is_object()) {
          std::string name, pattern;
          std::uint64_t selected = 1;
          read_optional(work.row.dispatch, "kernel", name);
          read_optional(work.row.dispatch, "pattern", pattern);
          read_optional(work.row.dispatch, "nth", selected);
          request.kernel = pattern.empty() ? literal(name) : pattern;
          if (!nth) wanted = selected;
        }
        if (request.kernel.empty())
          return fail(ErrorCode::usage, "session.capture: no kernel named and none selected",
                      "kernel: a name from session.trace, or session.select a dispatch");
        request.nth = {wanted};
        request.stop_after_capture = stop;
        KLAB_TRY_VOID(make_folders(work.folder));
        request.bundle = next_capture(work.folder);
        if (request.preview) {
          KLAB_TRY(const capture::Captured seen,
                   capture::capture(request, lab.line_progress(), lab.cancelled));
          work.said["captured_bytes"] = seen.captured_bytes;
          return Json{{"state", "preview"},
                      {"kernel", seen.kernel},
                      {"nth", wanted},
                      {"scope", request.scope},
                      {"captured_bytes", seen.captured_bytes},
                      {"target_exit", seen.target_exit},
                      {"warnings", seen.warnings}};
        }
        KLAB_TRY(const CaptureAnswer done, capture_dispatch(lab, request, true));
        KLAB_TRY(Json answer, capture_json(done));
        work.row.bundle = done.id;
        work.row.bundle_path = answer["bundle"];
        work.row.owns_bundle = true;
        KLAB_TRY(const OpenBundle opened, open_bundle(done.captured.sealed.path));
        const bundle::Dispatch& dispatch = opened.dispatch(0);
        work.row.dispatch = Json{{"kernel", dispatch.name}, {"nth", dispatch.nth}, {"grid", dispatch.grid}};
        if (work.row.source.is_object()) {  // selected before there was a bundle
          compile::Options options;
          std::string file;
          read_optional(work.row.source, "file", file);
          read_optional(work.row.source, "options", options);
          if (const Status selected = select_source(lab, work.row.bundle_path, file, options); !selected)
            answer["warnings"].push_back(
                fmt::format("the selected source is not used: {}", selected.error().what));
        }
        work.said["bundle"] = work.row.bundle_path;
        work.said["kernel"] = dispatch.name;
        work.said["captured_bytes"] = done.captured.captured_bytes;
        if (!done.proofs.empty()) work.said["proof"] = done.proofs[0].state;
        return answer;
      });
}

Result<Json> session_run(Lab& lab, const Json& arguments) {
  KLAB_TRY(const std::string id, session_of(arguments, "session.run"));
  KLAB_TRY(ReplayRequest request, replay_request(arguments_for(arguments, "checked below"), "session.run"));
  return work_in_session(lab, id, "run", Move::run, arguments, [&](SessionWork& work) -> Result<Json> {
    KLAB_TRY(request.bundle, session_bundle(work.row));
    KLAB_TRY(request.variant, variant_id(work, request.variant));
    KLAB_TRY_VOID(take_budget(work, arguments, request.budget_s));
    KLAB_TRY_VOID(confine_checks(work, request.checks));
    KLAB_TRY_VOID(work.store.sessions().count_run(id));
    work.said["variant"] = request.variant;
    KLAB_TRY(const Replayed done, replay_dispatch(lab, request));
    work.said["run"] = done.run;
    work.said["median_ns"] = done.summary.median_ns;
    return Json(done);
  });
}

Result<Json> session_compare(Lab& lab, const Json& arguments) {
  KLAB_TRY(const std::string id, session_of(arguments, "session.compare"));
  KLAB_TRY(CompareRequest request,
           compare_request(arguments_for(arguments, "checked below"), "session.compare"));
  return work_in_session(lab, id, "compare", Move::compare, arguments,
                         [&](SessionWork& work) -> Result<Json> {
                           KLAB_TRY(request.bundle, session_bundle(work.row));
                           KLAB_TRY(request.against, variant_id(work, request.against));
                           KLAB_TRY_VOID(take_budget(work, arguments, request.budget_s));
                           KLAB_TRY_VOID(confine_checks(work, request.checks));
                           if (!request.variants.empty()) {
                             for (std::string& one : request.variants) {
                               KLAB_TRY(one, variant_id(work, one));
                               KLAB_TRY_VOID(work.store.sessions().count_run(id));
                             }
                             KLAB_TRY(const Finalists done, compare_finalists(lab, request));
                             work.said["finalists"] = done.all.size();
                             if (done.best) {
                               const session::VerdictRow& best = done.all[*done.best].verdict;
                               work.said.update({{"comparison", best.id}, {"variant", best.variant}, {"correctness", best.correctness}, {"speed", best.speed}});
                             }
                             return Json(done);
                           }
                           KLAB_TRY(request.variant, variant_id(work, request.variant));
                           KLAB_TRY_VOID(work.store.sessions().count_run(id));
                           work.said["variant"] = request.variant;
                           KLAB_TRY(const Compared done, compare_variants(lab, request));
                           work.said["comparison"] = done.verdict.id;
                           work.said["correctness"] = done.verdict.correctness;
                           work.said["speed"] = done.verdict.speed;
                           if (done.verdict.ratio > 0) work.said["ratio"] = done.verdict.ratio;
                           return Json(done);
                         });
}

}  // namespace klab::ops
