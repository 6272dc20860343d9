// SPDX-License-Identifier: Apache-2.0
#include "ops/api.h"

#include <fmt/format.h>

#include "ops/calibrate.h"
#include "ops/dispatches.h"
#include "ops/report.h"
#include "ops/requests.h"
#include "ops/session.h"

namespace klab::ops {
namespace {

Result<Json> devices(Lab& lab, const Json& arguments) {
  KLAB_TRY_VOID(Fields(arguments, "devices").done());
  KLAB_TRY(Json list, list_devices(lab));
  return Json{{"devices", std::move(list)}};
}

Result<Json> run_prove(Lab& lab, const Json& arguments) {
  std::string bundle;
  std::uint32_t dispatch = 0;
  KLAB_TRY_VOID(Fields(arguments, "prove").need("bundle", bundle).take("dispatch", dispatch).done());
  KLAB_TRY(const bundle::Proof proof, prove(lab, bundle, dispatch));
  return Json{{"proof", proof}};
}

Result<Json> run_replay(Lab& lab, const Json& arguments) {
  KLAB_TRY(const ReplayRequest request, replay_request(arguments));
  KLAB_TRY(const Replayed done, replay_dispatch(lab, request));
  return Json(done);
}

Result<Json> run_compare(Lab& lab, const Json& arguments) {
  KLAB_TRY(const CompareRequest request, compare_request(arguments));
  if (!request.variants.empty()) {
    KLAB_TRY(const Finalists finalists, compare_finalists(lab, request));
    return Json(finalists);
  }
  KLAB_TRY(const Compared done, compare_variants(lab, request));
  return Json(done);
}

Result<Json> run_build(Lab& lab, const Json& arguments) {
  KLAB_TRY(const BuildRequest request, build_request(arguments));
  KLAB_TRY(const Built built, build_variant(lab, request));
  return Json(built);
}

Result<Json> source_find(Lab& lab, const Json& arguments) {
  std::string bundle, root;
  std::uint32_t dispatch = 0;
  variant::FindRequest request;
  KLAB_TRY_VOID(Fields(arguments, "source.find")
                    .need("bundle", bundle)
                    .need("root", root)
                    .take("dispatch", dispatch)
                    .take("include_folders", request.include_folders)
                    .take("defines", request.defines)
                    .done());
  request.root = root;
  KLAB_TRY(const Found found, find_source(lab, bundle, dispatch, request));
  return Json(found);
}

Result<Json> source_select(Lab& lab, const Json& arguments) {
  std::string bundle, file;
  compile::Options options;
  KLAB_TRY_VOID(
      Fields(arguments, "source.select").need("bundle", bundle).need("file", file).take("options", options).done());
  KLAB_TRY_VOID(select_source(lab, bundle, file, options));
  return Json{{"selected", file}};
}

Result<Json> source_write(Lab& lab, const Json& arguments) {
  std::string bundle, file;
  std::uint32_t dispatch = 0;
  bool replace = false;
  KLAB_TRY_VOID(Fields(arguments, "source.write")
                    .need("bundle", bundle)
                    .need("file", file)
                    .take("dispatch", dispatch)
                    .take("replace", replace)
                    .done());
  KLAB_TRY(const WrittenSource written, write_source(lab, bundle, dispatch, file, replace));
  return Json{{"file", written.file}, {"language", written.language}, {"from", written.from}};
}

/// With "html" or "data" files are written; without them the whole report is the answer.
Result<Json> run_report(Lab& lab, const Json& arguments) {
  std::string bundle, html, data;
  ReportRequest request;
  bool replace = false;
  KLAB_TRY_VOID(Fields(arguments, "report")
                    .take("bundle", bundle)
                    .take("comparison", request.comparison)
                    .take("html", html)
                    .take("data", data)
                    .take("replace", replace)
                    .done());
  for (const std::string* path : {&bundle, &html, &data})
    if (!path->empty() && !fs::path(*path).is_absolute())
      return fail(ErrorCode::usage, *path + " is not an absolute path", "paths of a verb are absolute");
  request.bundle = bundle;
  if (html.empty() && data.empty()) {
    KLAB_TRY(Json report, make_report(lab, request));
    return Json{{"report", std::move(report)}};
  }
  KLAB_TRY(const WrittenReport done,
           write_report(lab, request, {.html = html, .data = data, .replace = replace}));
  return Json{{"comparison", done.report.at("verdict").at("comparison")},
              {"verdict", done.report.at("verdict")},
              {"html", done.html.string()},
              {"data", done.data.string()}};
}

Result<Json> run_calibrate(Lab& lab, const Json& arguments) {
  CalibrateRequest request;
  KLAB_TRY_VOID(Fields(arguments, "calibrate")
                    .take("api", request.api)
                    .take("device", request.device)
                    .take("force", request.force)
                    .take("budget_s", request.budget_s)
                    .done());
  KLAB_TRY(const calibrate::Looked looked, calibrate_device(lab, request));
  return Json{{"calibration", looked.calibration}, {"cached", looked.cached}};
}

Result<Json> run_show_calibrations(Lab&, const Json& arguments) {
  std::string api, device;
  KLAB_TRY_VOID(Fields(arguments, "calibrations").take("api", api).take("device", device).done());
  return show_calibrations(api, device);
}

constexpr Verb kVerbs[] = {
    {"devices", "GPUs that can be replayed on", Uses::device, true, devices},
    {"prove", "run the proof replay of a captured dispatch again", Uses::device, false, run_prove},
    {"source.find", "candidates for the kernel's source under a folder", Uses::compiler, false, source_find},
    {"source.select", "say which file the source is", Uses::nothing, false, source_select},
    {"source.write", "write out the source that the bundle itself holds", Uses::compiler, false, source_write},
    {"build", "build a variant of the captured kernel", Uses::compiler, false, run_build},
    {"replay", "run the captured dispatch alone, timed and validated", Uses::device, false, run_replay},
    {"compare", "judge a variant: is it right, and is it faster", Uses::device, false, run_compare},
    {"report", "a comparison as a page and as data that can be checked", Uses::nothing, false, run_report},
    {"calibrate", "measure what a device attains, or take it from the cache", Uses::device, false, run_calibrate},
    {"dispatches.kernels", "kernels of a dispatch list, a page at a time", Uses::nothing, true, dispatches_kernels},
    {"dispatches.rows", "dispatches of a list: filtered, sorted, a page at a time", Uses::nothing, true, dispatches_rows},
    {"dispatches.timeline", "a dispatch list over time: a lane for each queue", Uses::nothing, true, dispatches_timeline},
    {"calibrations", "calibrations that are kept; measures nothing", Uses::nothing, true, run_show_calibrations},
};

}  // namespace

std::span<const Verb> verbs() {
  static const std::vector<Verb> all = [] {
    std::vector<Verb> list(std::begin(kVerbs), std::end(kVerbs));
    for (const Verb& verb : session_verbs()) list.push_back(verb);
    return list;
  }();
  return all;
}

const Verb* find_verb(std::string_view name) {
  for (const Verb& verb : verbs())
    if (verb.name == name) return &verb;
  return nullptr;
}

Result<Json> call(Lab& lab, std::string_view name, const Json& arguments) {
  const Verb* verb = find_verb(name);
  if (verb == nullptr)
    return fail(ErrorCode::usage, fmt::format("there is no verb \"{}\"", name.substr(0, 80)), "klab --help names them");
  try {
    return verb->run(lab, arguments);
  } catch (const std::exception& e) {
    return fail(ErrorCode::internal, fmt::format("{}: {}", name, e.what()), "this is a bug of klab: please report it");
  }
}

}  // namespace klab::ops
