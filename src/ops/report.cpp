// SPDX-License-Identifier: Apache-2.0
#include "ops/report.h"

#include <fmt/format.h>

#include "base/hash.h"
#include "base/ids.h"
#include "ops/report_fields.h"
#include "ops/report_html.h"

namespace klab::ops {
namespace {

using namespace fields;

/// What can be read back: invalid UTF-8 replaced, numbers that JSON does not have made null.
Json readable(const Json& j) {
  auto parsed = Json::parse(j.dump(-1, ' ', false, Json::error_handler_t::replace), nullptr, false);
  return parsed.is_discarded() ? Json() : parsed;
}

/// Options as they were given. Folders are named by their last part: where someone keeps things is not the
/// reader's.
Json options_of(const compile::Options& options) {
  Json j = options;
  if (j.contains("include_folders"))
    for (Json& folder : j["include_folders"]) folder = fs::path(text(folder)).filename().string();
  return j;
}

Json side(const std::optional<session::VariantRow>& row, const Json& answer,
          const session::BundleRow& bundle) {
  Json j{{"label", at(answer, "label")},
         {"code_hash", at(answer, "code_hash")},
         {"resources", at(answer, "resources")},
         {"outcome", at(answer, "outcome")}};
  if (row) {
    j.update({{"variant", row->id},
              {"label", row->name},
              {"language", row->language},
              {"compiler", row->compiler},
              {"options", options_of(row->options)},
              {"launch", row->launch},
              {"made_at", row->made_at}});
    if (!row->source_hash.empty())
      j["source"] = {{"file", fs::path(row->source_file).filename().string()}, {"hash", row->source_hash}};
    if (!j["code_hash"].is_string() || j["code_hash"] == "") j["code_hash"] = row->code_hash;
  } else {
    j["captured"] = true;  // the code of the program itself
    j["launch"] = replay::LaunchOverride();
    if (!bundle.source_hash.empty())
      j["source"] = {{"file", fs::path(bundle.source_file).filename().string()},
                     {"hash", bundle.source_hash}};
  }
  std::erase_if(j.get_ref<Json::object_t&>(), [](const auto& member) { return member.second.is_null(); });
  return j;
}

/// Evenly thinned: the distribution stays.
Json samples_of(const Json& answer, const Json& blocks, const char* letter) {
  const std::vector<double> all = numbers(at(answer, "samples_ns"));
  std::vector<double> kept;
  const std::size_t n = std::min(all.size(), kMostReportSamples);
  for (std::size_t i = 0; i < n; ++i) kept.push_back(all[i * all.size() / n]);
  double launched = 0;  // a worker thins too
  if (blocks.is_array())
    for (const Json& block : blocks)
      if (at(block, letter).is_array())
        for (const Json& l : at(block, letter)) launched += number_or(at(l, "launches"), 0);
  const auto taken =
      std::max(static_cast<std::uint64_t>(std::min(launched, 1e15)), std::uint64_t{all.size()});
  return {{"taken", taken}, {"kept", kept.size()}, {"times_ns", kept}};
}

std::string name_of(const Json& report) {
  std::string name = fs::path(text(at(report, "bundle", "name"))).stem().string();
  if (name.empty()) name = "comparison-" + text(at(report, "verdict", "comparison"));
  return name;
}

}  // namespace

Json report_of(const ReportParts& p) {
  const Json& detail = p.row.detail;
  const Json& variants = at(detail, "variants");
  const auto variant = [&](std::size_t i) -> const Json& {
    return variants.is_array() && i < variants.size() ? variants[i] : at(Json(), "");
  };
  const Json& comparison = at(detail, "comparison");
  Json report{
      {"schema", kReportSchema},
      {"klab", KLAB_VERSION},
      {"made_at", utc_now()},
      {"bundle",
       {{"id", p.bundle.id},
        {"name", fs::path(p.bundle.path).filename().string()},
        {"made_at", p.bundle.made_at}}},
      {"kernel", {{"name", p.dispatch ? p.dispatch->name : p.bundle.kernel}, {"dispatch", p.row.dispatch}}},
      {"device", at(detail, "device")},
      {"conditions", {{"asked", at(detail, "asked")}, {"ran", at(detail, "ran")}}},
      {"address_mode", at(detail, "address_mode")},
      {"address_by", at(detail, "address_by")},
      {"a", side(p.a, variant(0), p.bundle)},
      {"b", side(p.b, variant(1), p.bundle)},
      {"verdict",
       {{"comparison", p.row.id},
        {"at", p.row.at},
        {"correctness", p.row.correctness},
        {"speed", p.row.speed},
        {"reason", p.row.reason},
        {"ratio", p.row.ratio}}},
      {"validation", at(variant(1), "validation")},
      {"comparison", comparison},
      {"samples",
       {{"a", samples_of(variant(0), at(comparison, "blocks"), "a")},
        {"b", samples_of(variant(1), at(comparison, "blocks"), "b")}}},
      {"notes", at(detail, "notes")}};
  if (p.dispatch) {
    const bundle::Dispatch& d = *p.dispatch;
    report["kernel"].update(
        {{"entry_point", d.entry_point}, {"nth", d.nth}, {"call", d.call}, {"grid", d.grid}});
    if (d.block[0] != 0) report["kernel"]["block"] = d.block;
  }
  for (const char* side : {"a", "b"}) {
    if (const Json& placed = at(detail, "roofline", side); placed.is_object()) report[side]["roofline"] = placed;
    const Json& s = report["samples"][side];
    if (s["kept"] < s["taken"])
      report["notes"].push_back(fmt::format("{}: {} of {} times are in this report, evenly thinned",
                                            side[0] == 'a' ? "A" : "B", s["kept"].dump(), s["taken"].dump()));
  }
  std::erase_if(report.get_ref<Json::object_t&>(),
                [](const auto& member) { return member.second.is_null(); });
  return readable(report);
}

Result<Json> make_report(Lab& lab, const ReportRequest& request) {
  KLAB_TRY(session::Store * store, lab.store());
  ReportParts parts;
  std::optional<OpenBundle> opened;
  std::int64_t id = request.comparison;
  if (!request.bundle.empty()) {
    KLAB_TRY(opened, open_bundle(lab, request.bundle));
  } else if (id == 0) {
    return fail(ErrorCode::usage, "a report needs a bundle or the number of a comparison",
                "klab report NAME.klab");
  }
  if (id == 0) {
    KLAB_TRY(const auto rows, store->comparisons(opened->id, 1));
    if (rows.empty())
      return fail(ErrorCode::not_found,
                  fmt::format("nothing was compared with {} yet", request.bundle.string()),
                  fmt::format("klab compare {} --variant FILE", request.bundle.string()));
    id = rows[0].id;
  }
  KLAB_TRY(parts.row, store->verdict(id));
  if (opened && parts.row.bundle != opened->id)
    return fail(ErrorCode::not_found, fmt::format("comparison {} is not of {}", id, request.bundle.string()),
                "those that are: klab report " + request.bundle.string() + " --list");
  KLAB_TRY(const auto bundle, store->bundle(parts.row.bundle));
  parts.bundle = bundle.value_or(session::BundleRow{.id = parts.row.bundle});
  // The capture itself may be gone by now, or another may lie in its place: the report then says less.
  if (!opened && !parts.bundle.path.empty())
    if (auto there = open_bundle(parts.bundle.path); there && there->id == parts.row.bundle)
      opened = std::move(*there);
  if (opened && check_dispatch(*opened, parts.row.dispatch))
    parts.dispatch = opened->dispatch(parts.row.dispatch);
  const auto find = [&](const std::string& variant, std::optional<session::VariantRow>& to) {
    if (variant.empty()) return;
    if (auto row = store->variant(parts.row.bundle, variant)) to = std::move(*row);
  };
  find(parts.row.against, parts.a);
  find(parts.row.variant, parts.b);
  return report_of(parts);
}

Result<WrittenReport> write_report(Lab& lab, const ReportRequest& request, const ReportFiles& files) {
  WrittenReport done;
  KLAB_TRY(done.report, make_report(lab, request));
  done.html = files.html, done.data = files.data;
  if (done.html.empty() && done.data.empty())
    done.html = files.folder / (name_of(done.report) + "-report.html");
  if (done.html.empty()) done.html = fs::path(done.data).replace_extension(".html");
  if (done.data.empty()) done.data = fs::path(done.html).replace_extension(".json");
  if (done.html == done.data)
    return fail(ErrorCode::usage, fmt::format("page and data would both be {}", done.html.string()),
                "-o NAME.html --data NAME.json");
  std::error_code ec;
  for (const fs::path& file : {done.html, done.data})
    if (!files.replace && fs::exists(fs::symlink_status(file, ec)))
      return fail(ErrorCode::usage, fmt::format("{} is there already", file.string()),
                  "another name, or --force");
  KLAB_TRY_VOID(write_file_atomic(done.data, seal_report(done.report), 0644));
  KLAB_TRY_VOID(write_file_atomic(done.html, report_html(done.report, done.data.filename().string()), 0644));
  return done;
}

Result<Json> list_comparisons(Lab& lab, const fs::path& bundle) {
  KLAB_TRY(const OpenBundle opened, open_bundle(lab, bundle));
  KLAB_TRY(session::Store * store, lab.store());
  KLAB_TRY(const auto rows, store->comparisons(opened.id, 1000));
  KLAB_TRY(const auto variants, store->variants(opened.id));
  const auto name = [&](const std::string& id) {
    for (const session::VariantRow& v : variants)
      if (v.id == id) return v.name;
    return id.empty() ? std::string("baseline") : id;
  };
  Json list = Json::array();
  for (const session::VerdictRow& row : rows) {
    Json one = row;
    one.update({{"variant_name", name(row.variant)}, {"against_name", name(row.against)}});
    list.push_back(std::move(one));
  }
  return list;
}

std::string seal_report(Json report) {
  report = readable(report);
  if (!report.is_object()) return report.dump(1) + "\n";  // nothing that a seal could stand in
  report.erase("seal");
  report["seal"] = to_string(hash_text(report.dump()));
  return report.dump(1) + "\n";
}

Result<Json> read_report(const fs::path& file) {
  KLAB_TRY(const std::string text, read_file(file, kMostReportBytes));
  auto report = parse_json(text, file.string(), kMostReportBytes);
  if (!report) report.error().hint = "give the data file of a report: klab report --verify NAME-report.json";
  return report;
}

}  // namespace klab::ops
