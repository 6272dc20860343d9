// SPDX-License-Identifier: Apache-2.0
// session.status: what is there of a session, a page at a time. Starts no worker and loads no driver;
// disassembly asks the compiler program.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "import/dispatch_list.h"
#include "ops/allowed.h"
#include "ops/session_files.h"
#include "ops/session_verbs.h"
#include "ops/session_work.h"

namespace klab::ops {
namespace {

constexpr std::int64_t kMostItems = 200;
constexpr std::size_t kMostText = 1u << 20;

struct View {
  Lab& lab;
  session::Store& store;
  session::SessionRow& row;
  std::string variant;
  std::optional<std::int64_t> run, job;
  std::int64_t after = 0, limit = 50;
};

/// A page of rows that are read by their number.
template <class Row>
Json page(const std::vector<Row>& rows, std::int64_t limit, std::int64_t (*number)(const Row&)) {
  Json answer{{"items", rows}};
  if (static_cast<std::int64_t>(rows.size()) == limit)
    answer["next_cursor"] = std::to_string(number(rows.back()));
  return answer;
}

/// A page of a list that is there as a whole; the cursor counts its items.
Json slice(const Json& list, const View& v) {
  Json items = Json::array();
  const auto size = static_cast<std::int64_t>(list.size());
  const std::int64_t end = std::min(size, v.after + v.limit);
  for (std::int64_t i = std::min(v.after, size); i < end; ++i)
    items.push_back(list[static_cast<std::size_t>(i)]);
  Json answer{{"items", std::move(items)}};
  if (end < size) answer["next_cursor"] = std::to_string(end);
  return answer;
}

Result<Json> variants_of(View& v) {
  Json list = Json::array();
  KLAB_TRY(const auto ids, v.store.history().variants(v.row.id));
  for (const std::string& id : ids) {
    KLAB_TRY(const session::VariantRow variant, v.store.variant(v.row.bundle, id));
    Json one = variant;
    KLAB_TRY(const auto verdict, v.store.standing_verdict(v.row.bundle, id));
    if (verdict) one["verdict"] = *verdict;
    list.push_back(std::move(one));
  }
  return list;
}

Result<Json> summary(View& v) {
  KLAB_TRY(const session::Counts counts, v.store.history().counts(v.row.id));
  Json answer{
      {"counts", counts},
      {"caps", {{"runs", v.row.runs}, {"max_runs", v.row.max_runs}, {"left", v.row.max_runs - v.row.runs}}}};
  if (v.row.state == session::State::running)
    if (const auto job = v.store.sessions().working_job(v.row.id))
      answer["running"] = {{"job", job->id}, {"kind", job->kind}, {"since", job->made_at}};
  if (v.row.bundle_path.empty()) return answer;
  if (const auto opened = open_bundle(v.row.bundle_path)) {
    const bundle::Manifest& m = opened->reader.manifest();
    Json dispatches = Json::array();
    for (const bundle::Dispatch& d : m.dispatches) {
      std::uint64_t bytes = 0;
      for (const bundle::Region& r : d.regions) bytes += r.size;
      dispatches.push_back({{"kernel", d.name},
                            {"nth", d.nth},
                            {"grid", d.grid},
                            {"block", d.block},
                            {"regions", d.regions.size()},
                            {"captured_bytes", bytes},
                            {"proof", d.proof}});
    }
    answer["capture"] = {{"bundle", v.row.bundle_path},
                         {"device", m.device},
                         {"made_at", m.made_at},
                         {"dispatches", dispatches}};
  } else {
    answer["capture"] = {{"bundle", v.row.bundle_path}, {"gone", opened.error().what}};
  }
  KLAB_TRY(const Json variants, variants_of(v));
  Json verdicts = Json::array();
  for (const Json& one : variants)
    verdicts.push_back(
        {{"variant", one["id"]},
         {"name", one["name"]},
         {"correctness", one.contains("verdict") ? one["verdict"]["correctness"] : Json("not_compared")},
         {"ratio",
          one.contains("verdict") && one["verdict"].contains("ratio") ? one["verdict"]["ratio"] : Json()}});
  answer["variants"] = std::move(verdicts);
  KLAB_TRY(const auto bundle, v.store.bundle(v.row.bundle));
  if (bundle && !bundle->source_file.empty()) answer["source_file"] = bundle->source_file;
  return answer;
}

Result<session::VariantRow> needed_variant(View& v, const char* view) {
  if (v.variant.empty())
    return fail(ErrorCode::usage, fmt::format("view {} needs a variant", view), "view variants lists them");
  return v.store.variant(v.row.bundle, v.variant);
}

/// The file that the session selected: still where it may read.
Result<std::string> selected_text(View& v, std::string& name) {
  std::string file;
  if (!v.row.bundle.empty()) {
    KLAB_TRY(const auto bundle, v.store.bundle(v.row.bundle));
    if (bundle) file = bundle->source_file;
  }
  if (file.empty() && v.row.source.is_object()) file = v.row.source.value("file", "");
  if (file.empty())
    return fail(ErrorCode::not_found, "no source is selected",
                "session.search finds it, session.select names it");
  KLAB_TRY(const Allowed allowed, open_allowed(v.row.roots, file, PathKind::file));
  name = file;
  return read_allowed(allowed);
}

Json text_answer(std::string text) {
  Json answer = Json::object();
  if (text.size() > kMostText) {
    answer["left_out_bytes"] = text.size() - kMostText;
    text.resize(kMostText);
  }
  answer["text"] = std::move(text);
  return answer;
}

Result<Json> source(View& v) {
  if (v.variant.empty() || v.variant == "baseline") {
    std::string name;
    KLAB_TRY(std::string text, selected_text(v, name));
    const std::string hash = to_string(hash_text(text));
    Json answer = text_answer(std::move(text));
    answer["file"] = name, answer["hash"] = hash;
    return answer;
  }
  KLAB_TRY(const session::VariantRow variant, needed_variant(v, "source"));
  if (variant.source_copy.empty())
    return fail(ErrorCode::not_found,
                fmt::format("variant {} has no source: only its launch differs", variant.name));
  KLAB_TRY(std::string text, read_file(variant.source_copy, 256u << 20));
  Json answer = text_answer(std::move(text));
  answer["file"] = variant.source_file, answer["hash"] = variant.source_hash, answer["variant"] = variant.id;
  return answer;
}

Result<Json> diff(View& v) {
  KLAB_TRY(const session::VariantRow variant, needed_variant(v, "diff"));
  std::string name;
  KLAB_TRY(const std::string before, selected_text(v, name));
  KLAB_TRY(const std::string after, read_file(variant.source_copy, 256u << 20));
  return text_answer(variant::unified_diff(before, after, name));
}

Result<Json> disassembly(View& v) {
  fs::path code;
  if (v.variant.empty() || v.variant == "baseline") {
    KLAB_TRY(const fs::path path, session_bundle(v.row));
    KLAB_TRY(const OpenBundle opened, open_bundle(path));
    const bundle::Manifest& m = opened.reader.manifest();
    KLAB_TRY_VOID(opened.reader.code(m.dispatches.at(0).code));
    code = opened.reader.path() / m.code.at(m.dispatches[0].code).file;
  } else {
    KLAB_TRY(const session::VariantRow variant, needed_variant(v, "disassembly"));
    if (variant.code.empty())
      return fail(ErrorCode::not_found, fmt::format("variant {} has the captured code", variant.name),
                  "view disassembly without a variant");
    code = variant.code;
  }
  KLAB_TRY(const std::string bytes, read_file(code, 256u << 20));
  KLAB_TRY(compile::Answer answer,
           v.lab.compiler().ask(
               {.verb = "disassemble", .language = kind_of_code(bytes), .source = code.string()}));
  if (!answer.ok)
    return fail(answer.error.value_or(Error{ErrorCode::environment, "no disassembly: " + answer.log,
                                            "klab doctor names the disassemblers", 0}));
  return text_answer(std::move(answer.disassembly));
}

Result<Json> log(View& v) {
  std::int64_t job = v.job.value_or(0);
  if (job == 0) {
    KLAB_TRY(const auto jobs, v.store.sessions().jobs(v.row.id, 1));
    if (jobs.empty()) return fail(ErrorCode::not_found, "the session has run no job yet");
    job = jobs[0].id;
  }
  KLAB_TRY(const session::JobRow row, v.store.sessions().job(job));
  if (row.session != v.row.id)
    return fail(ErrorCode::not_found, fmt::format("job {} is not of this session", job),
                "view jobs lists them");
  KLAB_TRY(
      std::string text,
      read_file(session_folder(v.lab.home(), v.row.id) / "logs" / fmt::format("{}.log", job), 128u << 20));
  Json answer{{"job", job}};
  if (text.size() > kMostText) {  // the end of a log says why it ended
    answer["left_out_bytes"] = text.size() - kMostText;
    text = text.substr(text.size() - kMostText);
  }
  answer["text"] = std::move(text);
  return answer;
}

Result<Json> view_of(View& v, const std::string& view) {
  session::Sessions sessions = v.store.sessions();
  if (view == "summary") return summary(v);
  if (view == "variants") {
    KLAB_TRY(const Json list, variants_of(v));
    return slice(list, v);
  }
  if (view == "runs") {
    if (v.run) {
      KLAB_TRY(const session::RunRow run, v.store.run(*v.run));
      if (run.session != v.row.id)
        return fail(ErrorCode::not_found, fmt::format("run {} is not of this session", *v.run),
                    "view runs lists them");
      Json one = run;
      one["answer"] = run.answer;
      return Json{{"items", Json::array({std::move(one)})}};
    }
    KLAB_TRY(const auto rows, v.store.runs(v.row.id, v.after, v.limit));
    return page<session::RunRow>(rows, v.limit, [](const session::RunRow& r) { return r.id; });
  }
  if (view == "comparisons") {
    KLAB_TRY(const auto rows, v.store.verdicts(v.row.id, v.after, v.limit));
    return page<session::VerdictRow>(rows, v.limit, [](const session::VerdictRow& r) { return r.id; });
  }
  if (view == "events") {
    KLAB_TRY(const auto rows, sessions.events(v.row.id, v.after, v.limit));
    return page<session::EventRow>(rows, v.limit, [](const session::EventRow& r) { return r.id; });
  }
  if (view == "jobs") {
    KLAB_TRY(const auto rows, sessions.jobs(v.row.id, 10000));
    Json list = Json::array();
    for (const session::JobRow& row : rows) {
      Json one = row;
      one.erase("result");  // job.wait has it
      list.push_back(std::move(one));
    }
    return slice(list, v);
  }
  if (view == "saves") {
    KLAB_TRY(const auto rows, v.store.history().saves(v.row.id));
    KLAB_TRY(const auto kept, variant::list_saves());
    Json list = rows;
    for (Json& one : list)
      one["undone"] = std::any_of(kept.begin(), kept.end(), [&](const variant::Saved& s) { return s.id == one["id"] && s.undone; });
    return slice(list, v);
  }
  if (view == "dispatches") {
    const fs::path file = session_folder(v.lab.home(), v.row.id) / "dispatches.jsonl";
    std::error_code ec;
    if (!fs::exists(file, ec))
      return fail(ErrorCode::not_found, "the session's program was not traced yet",
                  "session.trace lists its dispatches");
    KLAB_TRY(const import::DispatchList list, import::read_list(file));
    return slice(dispatches_json(list, file).at("kernels"), v);
  }
  if (view == "source") return source(v);
  if (view == "diff") return diff(v);
  if (view == "disassembly") return disassembly(v);
  if (view == "log") return log(v);
  return fail(ErrorCode::usage, fmt::format("session.status: there is no view \"{}\"", view.substr(0, 80)),
              "summary, dispatches, variants, runs, comparisons, jobs, events, saves, diff, source, "
              "disassembly, log");
}

}  // namespace

Result<Json> session_status(Lab& lab, const Json& arguments) {
  std::string id, view = "summary", cursor, variant;
  std::optional<std::int64_t> run, job;
  std::int64_t limit = 50;
  KLAB_TRY_VOID(Fields(arguments, "session.status")
                    .need("session", id)
                    .take("view", view)
                    .take("cursor", cursor)
                    .take("limit", limit)
                    .take("variant", variant)
                    .take("run", run)
                    .take("job", job)
                    .done());
  if (limit < 1 || limit > kMostItems)
    return fail(ErrorCode::usage, "session.status: limit is from 1 to 200");
  std::int64_t after = 0;
  if (!cursor.empty()) {
    const auto parsed = std::from_chars(cursor.data(), cursor.data() + cursor.size(), after);
    if (parsed.ec != std::errc() || parsed.ptr != cursor.data() + cursor.size() || after < 0)
      return fail(ErrorCode::usage, "session.status: that is no cursor",
                  "take next_cursor of the page before");
  }
  KLAB_TRY(session::Store * store, lab.store());
  KLAB_TRY(session::SessionRow row, store->sessions().get(id));
  View v{lab, *store, row, variant, run, job, after, limit};
  KLAB_TRY(Json answer, view_of(v, view));
  answer["view"] = view;
  return with_session(std::move(answer), row);
}

}  // namespace klab::ops
