// SPDX-License-Identifier: Apache-2.0
// session.report: the evidence of a whole session, for a person (Markdown) or a program (JSON).
#include <fmt/format.h>

#include "base/units.h"
#include "ops/session_verbs.h"
#include "ops/session_work.h"

namespace klab::ops {
namespace {

Result<Json> gather(Lab& lab, session::Store& store, const session::SessionRow& row) {
  Json report{{"session", row}, {"schema", 1}};
  if (!row.bundle_path.empty()) {
    if (const auto opened = open_bundle(row.bundle_path)) {
      const bundle::Manifest& m = opened->reader.manifest();
      report["capture"] = {{"id", opened->id},   {"made_by", m.made_by},      {"made_at", m.made_at},
                           {"device", m.device}, {"program", m.program.argv}, {"dispatches", Json::array()}};
      for (const bundle::Dispatch& d : m.dispatches)
        report["capture"]["dispatches"].push_back(
            {{"kernel", d.name}, {"nth", d.nth}, {"grid", d.grid}, {"block", d.block}, {"proof", d.proof}});
    } else {
      report["capture"] = {{"gone", opened.error().what}};
    }
  }
  Json variants = Json::array();
  KLAB_TRY(const auto ids, store.history().variants(row.id));
  for (const std::string& id : ids) {
    KLAB_TRY(const session::VariantRow variant, store.variant(row.bundle, id));
    Json one = variant;
    KLAB_TRY(const auto verdict, store.standing_verdict(row.bundle, id));
    if (verdict) one["verdict"] = *verdict;
    variants.push_back(std::move(one));
  }
  report["variants"] = std::move(variants);
  KLAB_TRY(const auto runs, store.runs(row.id, 0, 1 << 20));
  KLAB_TRY(const auto comparisons, store.verdicts(row.id, 0, 1 << 20));
  KLAB_TRY(const auto saves, store.history().saves(row.id));
  report["runs"] = runs, report["comparisons"] = comparisons, report["saves"] = saves;
  Json failures = Json::array();
  KLAB_TRY(const auto events, store.sessions().events(row.id, 0, 1 << 20));
  for (const session::EventRow& e : events)
    if (e.detail.is_object() && e.detail.contains("error"))
      failures.push_back({{"at", e.at}, {"kind", e.kind}, {"error", e.detail["error"]}});
  report["failures"] = std::move(failures);
  (void)lab;
  return report;
}

// Text of others in a table's cell or a line of Markdown.
std::string cell(const Json& value) {
  std::string text = value.is_string() ? value.get<std::string>() : value.is_null() ? "" : value.dump();
  std::string out;
  for (const char c : text) {
    if (c == '|' || c == '`' || c == '<') out += '\\';
    out += c == '\n' || c == '\r' ? ' ' : c;
  }
  return out.size() > 300 ? out.substr(0, 297) + "..." : out;
}

std::string conditions_text(const Json& c) {
  return fmt::format("{}, {} iterations, {}", c.value("mode", ""), c.value("iterations", 0),
                     c.value("cache", ""));
}

std::string markdown(const Json& r) {
  const Json& s = r["session"];
  std::string out = fmt::format("# Session {}{}\n\n", s["id"].get<std::string>(),
                                s["name"] == "" ? "" : ": " + cell(s["name"]));
  out += fmt::format("State {}, opened {} by {}. Runs {} of {}.\n\n", cell(s["state"]), cell(s["made_at"]),
                     cell(s["made_by"]), s["runs"].dump(), s["max_runs"].dump());
  if (r.contains("capture")) {
    const Json& c = r["capture"];
    out += "## Capture\n\n";
    if (c.contains("gone")) {
      out += fmt::format("The captured inputs are gone: {}\n\n", cell(c["gone"]));
    } else {
      out += fmt::format(
          "{} on {} ({}), made by {} at {}.\n\n| kernel | execution | grid | block | proof replay "
          "|\n|---|---|---|---|---|\n",
          cell(c["id"]), cell(c["device"].value("name", "")), cell(c["device"].value("driver_version", "")),
          cell(c["made_by"]), cell(c["made_at"]));
      for (const Json& d : c["dispatches"])
        out += fmt::format("| {} | {} | {} | {} | {} |\n", cell(d["kernel"]), cell(d["nth"]), cell(d["grid"]),
                           cell(d["block"]), cell(d["proof"]["state"]));
      out += "\n";
    }
  }
  out +=
      "## Variants\n\n| name | id | correctness | B over A | source hash | code hash | compiler | reason "
      "|\n|---|---|---|---|---|---|---|---|\n";
  for (const Json& v : r["variants"]) {
    const Json verdict = v.value("verdict", Json::object());
    out += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} |\n", cell(v["name"]), cell(v["id"]),
                       verdict.empty() ? "not compared" : cell(verdict["correctness"]),
                       verdict.contains("ratio") ? fmt::format("{:.3f}", verdict["ratio"].get<double>()) : "",
                       cell(v["source_hash"]), cell(v["code_hash"]), cell(v["compiler"]),
                       cell(verdict.value("reason", "")));
  }
  out +=
      "\nB over A: interleaved medians, not a claim of speed.\n\n## Runs\n\n| run | variant | conditions | "
      "median | outcome | device | at |\n|---|---|---|---|---|---|---|\n";
  for (const Json& run : r["runs"])
    out += fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", cell(run["run"]), cell(run["variant"]),
                       conditions_text(run["conditions"]),
                       run.contains("median_ns") ? format_ns(run["median_ns"].get<double>()) : "",
                       cell(run["outcome"]), cell(run["device"]), cell(run["at"]));
  if (!r["failures"].empty()) {
    out += "\n## What failed\n\n";
    for (const Json& f : r["failures"])
      out += fmt::format("- {} {}: {}: {}\n", cell(f["at"]), cell(f["kind"]),
                         cell(f["error"].value("code", "")), cell(f["error"].value("what", "")));
  }
  if (!r["saves"].empty()) {
    out += "\n## Saved\n\n| id | variant | file | approved by | at |\n|---|---|---|---|---|\n";
    for (const Json& v : r["saves"])
      out += fmt::format("| {} | {} | {} | {} | {} |\n", cell(v["id"]), cell(v["variant"]), cell(v["file"]),
                         cell(v["approved_by"]), cell(v["at"]));
  }
  return out;
}

}  // namespace

Result<Json> session_report(Lab& lab, const Json& arguments) {
  std::string id, format = "json";
  KLAB_TRY_VOID(Fields(arguments, "session.report").need("session", id).take("format", format).done());
  if (format != "json" && format != "markdown")
    return fail(ErrorCode::usage, "session.report: format is json or markdown");
  KLAB_TRY(session::Store * store, lab.store());
  KLAB_TRY(const session::SessionRow row, store->sessions().get(id));
  KLAB_TRY(Json report, gather(lab, *store, row));
  return with_session(Json{{"report", format == "json" ? std::move(report) : Json(markdown(report))}}, row);
}

}  // namespace klab::ops
