// SPDX-License-Identifier: Apache-2.0
// session.open, .list, .close.
#include <fmt/format.h>

#include "ops/allowed.h"
#include "ops/session_files.h"
#include "ops/session_verbs.h"
#include "ops/session_work.h"

namespace klab::ops {
namespace {

constexpr std::size_t kLongestName = 200, kMostArguments = 1000, kMostArgumentBytes = 128u << 10;

struct OpenRequest {
  std::string name, bundle, working_folder, made_by, settings_folder, program_name;
  std::vector<std::string> roots, program, allow_save;
  std::optional<std::int64_t> max_runs;
  std::optional<double> worker_budget_s;
  std::optional<std::uint64_t> job_log_bytes;
};

Result<OpenRequest> open_request(const Lab& lab, const Json& arguments) {
  OpenRequest r;
  r.made_by = lab.front_end;
  KLAB_TRY_VOID(Fields(arguments, "session.open")
                    .take("name", r.name)
                    .take("bundle", r.bundle)
                    .take("roots", r.roots)
                    .take("program", r.program)
                    .take("program_name", r.program_name)
                    .take("working_folder", r.working_folder)
                    .take("max_runs", r.max_runs)
                    .take("worker_budget_s", r.worker_budget_s)
                    .take("job_log_bytes", r.job_log_bytes)
                    .take("allow_save", r.allow_save)
                    .take("made_by", r.made_by)
                    .take("settings_folder", r.settings_folder)
                    .done());
  if (r.name.size() > kLongestName || r.made_by.size() > kLongestName)
    return fail(ErrorCode::usage, "session.open: the name is too long", "at most 200 bytes");
  std::size_t bytes = 0;
  for (const std::string& one : r.program) {
    bytes += one.size();
    if (one.find('\0') != std::string::npos)
      return fail(ErrorCode::usage, "session.open: an argument of the program has a NUL byte in it");
  }
  if (r.program.size() > kMostArguments || bytes > kMostArgumentBytes || (!r.program.empty() && r.program[0].empty()))
    return fail(ErrorCode::usage, "session.open: that is no command line", "program: [\"./program\", \"its\", \"arguments\"]");
  return r;
}

// Caps come from klab.toml; at the command line the user may say otherwise, a front end that speaks for somebody else
// may only ask for less.
template <class T>
Status limit(const Lab& lab, const char* name, const std::optional<T>& asked, T& value) {
  if (!asked) return {};
  if (*asked < 1) return fail(ErrorCode::usage, fmt::format("session.open: {} must be 1 or more", name));
  if (*asked > value && lab.front_end != "cli")
    return fail(ErrorCode::cap_reached, fmt::format("session.open: {} is {} here, {} was asked for", name, value, *asked),
                fmt::format("the user raises {} in klab.toml", name));
  value = *asked;
  return {};
}

}  // namespace

Result<Json> session_open(Lab& lab, const Json& arguments) {
  KLAB_TRY(OpenRequest r, open_request(lab, arguments));
  Settings settings;
  if (!r.settings_folder.empty()) {
    KLAB_TRY(settings, read_settings(r.settings_folder));
  }
  KLAB_TRY_VOID(limit(lab, "max_runs", r.max_runs, settings.max_runs));
  KLAB_TRY_VOID(limit(lab, "worker_budget_s", r.worker_budget_s, settings.worker_budget_s));
  KLAB_TRY_VOID(limit(lab, "job_log_bytes", r.job_log_bytes, settings.job_log_bytes));

  session::SessionRow row{.name = r.name, .made_by = r.made_by, .program = r.program, .max_runs = settings.max_runs};
  Json environment = Json::object();
  if (!r.program_name.empty()) {
    const auto it = settings.programs.find(r.program_name);
    if (it == settings.programs.end()) {
      std::string names;
      for (const auto& [name, p] : settings.programs) names += (names.empty() ? "" : ", ") + name;
      return fail(ErrorCode::not_allowed, fmt::format("klab.toml names no program \"{}\"", r.program_name.substr(0, 80)),
                  names.empty() ? "the user adds [programs.NAME] there" : "it names " + names);
    }
    if (!row.program.empty())
      return fail(ErrorCode::usage, "session.open: program and program_name are both given", "give one of them");
    row.program = it->second.argv;
    if (r.working_folder.empty()) r.working_folder = it->second.working_folder;
    for (const auto& [name, value] : it->second.environment) environment[name] = value;
  }
  KLAB_TRY(row.roots, canonical_roots(r.roots.empty() ? settings.roots : r.roots));
  if (row.roots.empty())
    return fail(ErrorCode::usage, "session.open: no roots: nothing could be read or written",
                "roots: the folders that the session may touch, or roots in klab.toml");
  if (!r.allow_save.empty()) settings.allow_save = r.allow_save;
  KLAB_TRY(settings.allow_save, canonical_roots(settings.allow_save));
  for (const std::string& folder : settings.allow_save)
    if (!beneath(row.roots, folder))
      return fail(ErrorCode::not_allowed, fmt::format("allow_save: {} is not beneath the session's roots", folder));
  row.working_folder = r.working_folder.empty() ? row.roots[0] : r.working_folder;
  std::error_code ec;
  if (row.working_folder[0] != '/' || row.working_folder.find('\0') != std::string::npos ||
      !fs::is_directory(row.working_folder, ec))
    return fail(ErrorCode::not_found, fmt::format("working_folder {}: no such folder", row.working_folder.substr(0, 300)),
                "give the absolute path of a folder");
  row.settings = settings;
  row.settings["environment"] = environment;

  if (!r.bundle.empty()) {
    if (r.bundle[0] != '/') return fail(ErrorCode::usage, fmt::format("bundle {} is not an absolute path", r.bundle.substr(0, 300)));
    fs::path bundle = r.bundle;
    if (lab.front_end != "cli") {  // at the command line the user names it himself
      auto allowed = open_allowed(row.roots, r.bundle, PathKind::folder);
      if (!allowed && allowed.error().code == ErrorCode::not_found)
        allowed = open_allowed(row.roots, r.bundle + ".klab", PathKind::folder);
      if (!allowed) return fail(allowed.error());
      bundle = allowed->path;
    }
    KLAB_TRY(const OpenBundle opened, open_bundle(lab, bundle));
    row.bundle = opened.id;
    row.bundle_path = fs::absolute(opened.reader.path(), ec).string();
    const auto& dispatches = opened.reader.manifest().dispatches;
    if (!dispatches.empty()) row.dispatch = Json{{"kernel", dispatches[0].name}, {"nth", dispatches[0].nth}};
  }
  KLAB_TRY(session::Store * store, lab.store());
  session::Sessions sessions = store->sessions();
  KLAB_TRY(session::SessionRow opened, sessions.open(row));
  if (!row.bundle.empty()) {
    KLAB_TRY(opened, sessions.move(opened.id, session::Move::capture, Json{{"bundle", row.bundle_path}, {"given", true}}));
  }
  KLAB_TRY_VOID(make_folders(session_folder(lab.home(), opened.id)));
  return with_session(Json::object(), opened);
}

Result<Json> session_list(Lab& lab, const Json& arguments) {
  bool closed = false;
  std::int64_t limit = 200;
  KLAB_TRY_VOID(Fields(arguments, "session.list").take("closed", closed).take("limit", limit).done());
  if (limit < 1 || limit > 10000) return fail(ErrorCode::usage, "session.list: limit is from 1 to 10000");
  KLAB_TRY(session::Store * store, lab.store());
  KLAB_TRY(const auto rows, store->sessions().list(closed, limit));
  Json actions = Json::array();
  actions.push_back({{"verb", "session.open"}, {"why", "start a laboratory"}});
  if (!rows.empty()) actions.push_back({{"verb", "session.status"}, {"why", "look into one of them"}});
  return Json{{"sessions", rows}, {"next_actions", std::move(actions)}};
}

Result<Json> session_close(Lab& lab, const Json& arguments) {
  std::string id;
  KLAB_TRY_VOID(Fields(arguments, "session.close").need("session", id).done());
  KLAB_TRY(session::Store * store, lab.store());
  session::Sessions sessions = store->sessions();
  // The move is the one that only one of two can make; a kill after it is finished by recover_sessions.
  KLAB_TRY(session::SessionRow row, sessions.move(id, session::Move::close, Json{{"by", lab.front_end}}));
  const FreedFiles freed = delete_inputs(session_folder(lab.home(), id));
  if (row.owns_bundle) {
    row.owns_bundle = false;
    KLAB_TRY_VOID(sessions.update(row));
  }
  KLAB_TRY_VOID(sessions.add_event(id, "freed", Json{{"bytes", freed.bytes}}));
  Json kept = Json::array({"results", "events"});
  for (const std::string& name : freed.kept) kept.push_back(name);
  if (!row.bundle_path.empty() && !row.bundle_path.starts_with((lab.home() / "sessions" / id).string()))
    kept.push_back(row.bundle_path);  // it was there before the session
  KLAB_TRY(const auto saves, store->history().saves(id));
  if (!saves.empty()) kept.push_back("backups");
  return with_session(Json{{"freed_bytes", freed.bytes}, {"kept", std::move(kept)}}, row);
}

}  // namespace klab::ops
