// SPDX-License-Identifier: Apache-2.0
// session.search, .select, .build: the kernel's source, and variants of it.
#include <fmt/format.h>

#include <algorithm>
#include <regex>

#include "base/hash.h"
#include "ops/allowed.h"
#include "ops/session_verbs.h"
#include "ops/session_work.h"

namespace klab::ops {
namespace {

using session::Move;

constexpr std::size_t kMostHits = 50, kMostFiles = 20000, kMostSource = 8u << 20;

bool is_source(const fs::path& file) {
  static constexpr std::string_view kEndings[] = {".comp", ".glsl",   ".hlsl", ".cu", ".cuh", ".hip",
                                                  ".ptx",  ".spvasm", ".c",    ".cc", ".cpp", ".cxx",
                                                  ".h",    ".hpp",    ".py",   ".inc"};
  const std::string extension = file.extension().string();
  return std::find(std::begin(kEndings), std::end(kEndings), extension) != std::end(kEndings);
}

/// Files below `root` that hold `text`, with the first line that does. Links are not followed.
Json files_with(const SessionWork& work, const std::string& root, const std::string& text) {
  Json hits = Json::array();
  std::error_code ec;
  std::size_t seen = 0;
  for (fs::recursive_directory_iterator it(root, fs::directory_options::skip_permission_denied, ec), end;
       !ec && it != end; it.increment(ec)) {
    if (work.lab.cancelled && work.lab.cancelled()) break;
    if (it->is_symlink(ec) || it->path().filename().string().starts_with('.')) {
      if (it->is_directory(ec)) it.disable_recursion_pending();
      continue;
    }
    if (!it->is_regular_file(ec) || !is_source(it->path())) continue;
    if (++seen > kMostFiles || hits.size() >= kMostHits) break;
    const auto content = read_file(it->path(), kMostSource);
    if (!content) continue;
    const auto at = content->find(text);
    if (at == std::string::npos) continue;
    const auto line =
        std::count(content->begin(), content->begin() + static_cast<std::ptrdiff_t>(at), '\n') + 1;
    hits.push_back({{"file", it->path().string()},
                    {"evidence", "text_matches"},
                    {"because", Json::array({fmt::format("line {} has \"{}\"", line, text)})},
                    {"line", line}});
  }
  return hits;
}

/// What a text that somebody else wrote may include: names below the roots, or the compiler's own headers. A
/// compiler quotes what it cannot parse, and so would show any file of the user's.
Status check_includes(const SessionWork& work, std::string_view text, const fs::path& source) {
  static const std::regex kInclude(R"((?:^|\n)[ \t]*#[ \t]*include[ \t]*([^\n]*))");
  for (std::cregex_iterator it(text.data(), text.data() + text.size(), kInclude), end; it != end; ++it) {
    const std::string what = (*it)[1];
    const char close = what.empty() ? '\0' : what[0] == '<' ? '>' : what[0] == '"' ? '"' : '\0';
    const auto stop = close == '\0' ? std::string::npos : what.find(close, 1);
    if (stop == std::string::npos)
      return fail(ErrorCode::not_allowed,
                  fmt::format("#include {}: only names in quotes or angle brackets", what.substr(0, 80)),
                  "write the name out");
    const fs::path name = what.substr(1, stop - 1);
    const bool up = std::find(name.begin(), name.end(), "..") != name.end();
    if (!name.is_absolute() && !up) continue;
    const fs::path whole = (name.is_absolute() ? name : source.parent_path() / name).lexically_normal();
    if (!beneath(work.row.roots, whole))
      return fail(
          ErrorCode::not_allowed,
          fmt::format("#include of {}, which lies outside the session's roots", name.string().substr(0, 200)),
          "include files below the roots");
  }
  return {};
}

const char* ending_of(const std::string& language) {
  if (language == "glsl") return ".comp";
  if (language == "spirv") return ".spvasm";
  if (language == "cuda") return ".cu";
  if (language == "hip") return ".hip";
  if (language == "ptx") return ".ptx";
  return nullptr;
}

Result<std::string> allowed_folder(const SessionWork& work, const std::string& path) {
  KLAB_TRY(const Allowed folder, open_allowed(work.row.roots, path, PathKind::folder));
  return folder.path.string();
}

/// The user at his command line may name any compiler option; who speaks for somebody else only those of the
/// schema.
Status check_options(SessionWork& work, BuildRequest& request) {
  for (std::string& folder : request.more_includes) {
    KLAB_TRY(folder, allowed_folder(work, folder));
  }
  if (request.options)
    for (std::string& folder : request.options->include_folders) {
      KLAB_TRY(folder, allowed_folder(work, folder));
    }
  if (!request.cuda.compile_commands.empty()) {
    KLAB_TRY(const Allowed file,
             open_allowed(work.row.roots, request.cuda.compile_commands.string(), PathKind::file));
    request.cuda.compile_commands = file.path;
  }
  const bool free_options =
      !request.cuda.extra.empty() ||
      (request.options && (!request.options->extra.empty() || !request.options->project.empty()));
  if (free_options && work.lab.front_end != "cli")
    return fail(ErrorCode::not_allowed, "compiler options as free text are for the user at his command line",
                "use the members of build: defines, fast_math, max_registers, standard, ...");
  return {};
}

}  // namespace

Result<Json> session_search(Lab& lab, const Json& arguments) {
  std::string id, query, root;
  KLAB_TRY_VOID(
      Fields(arguments, "session.search").need("session", id).take("query", query).take("root", root).done());
  return work_in_session(lab, id, "search", Move::search, arguments, [&](SessionWork& work) -> Result<Json> {
    std::vector<std::string> roots = work.row.roots;
    if (!root.empty()) {
      KLAB_TRY(const std::string within, allowed_folder(work, root));
      roots = {within};
    }
    Json candidates = Json::array();
    std::string selected, own_source;
    for (const std::string& one : roots) {
      if (work.row.bundle_path.empty()) {
        if (query.empty() && work.row.dispatch.is_object()) query = work.row.dispatch.value("kernel", "");
        if (query.empty())
          return fail(ErrorCode::usage, "session.search: before a capture it needs a query",
                      "query: the kernel's name, or words of its source");
        for (Json& hit : files_with(work, one, query)) candidates.push_back(std::move(hit));
        continue;
      }
      KLAB_TRY(const Found found, find_source(lab, work.row.bundle_path, 0, {.root = one}));
      for (const variant::Candidate& c : found.candidates) candidates.push_back(c);
      if (selected.empty()) selected = found.selected;
      if (found.has_own_source) own_source = found.own_source;
    }
    if (!selected.empty()) work.row.source = Json{{"file", selected}};
    work.said["candidates"] = candidates.size();
    Json answer{{"candidates", std::move(candidates)}, {"selected", selected}};
    if (!own_source.empty()) answer["own_source"] = own_source;
    return answer;
  });
}

Result<Json> session_select(Lab& lab, const Json& arguments) {
  std::string id, file;
  Json dispatch;
  std::optional<compile::Options> options;
  KLAB_TRY_VOID(Fields(arguments, "session.select")
                    .need("session", id)
                    .take("file", file)
                    .take("dispatch", dispatch)
                    .take("options", options)
                    .done());
  if (file.empty() == dispatch.is_null())
    return fail(ErrorCode::usage, "session.select: give a file or a dispatch",
                "file: its path; dispatch: {kernel, nth}");
  KLAB_TRY(session::Store * store, lab.store());
  session::Sessions sessions = store->sessions();
  KLAB_TRY(session::SessionRow row, sessions.get(id));
  KLAB_TRY_VOID(session::next(row.state, Move::select_source));
  if (!dispatch.is_null()) {
    std::string kernel, pattern;
    std::uint64_t nth = 1;
    KLAB_TRY_VOID(Fields(dispatch, "session.select: dispatch")
                      .take("kernel", kernel)
                      .take("pattern", pattern)
                      .take("nth", nth)
                      .done());
    if (kernel.empty() == pattern.empty() || nth == 0)
      return fail(ErrorCode::usage, "session.select: a dispatch is {kernel or pattern, nth from 1}",
                  "session.trace lists them");
    row.dispatch = Json{{"nth", nth}};
    row.dispatch[kernel.empty() ? "pattern" : "kernel"] = kernel.empty() ? pattern : kernel;
    KLAB_TRY_VOID(sessions.update(row));
    KLAB_TRY_VOID(
        sessions.add_event(id, "dispatch_selected", {{"dispatch", row.dispatch}, {"by", lab.front_end}}));
    return with_session(Json{{"dispatch", row.dispatch}}, row);
  }
  KLAB_TRY(const Allowed allowed, open_allowed(row.roots, file, PathKind::file));
  if (!row.bundle_path.empty())
    KLAB_TRY_VOID(select_source(lab, row.bundle_path, allowed.path, options.value_or(compile::Options{})));
  row.source = Json{{"file", allowed.path.string()}};
  if (options) row.source["options"] = *options;
  KLAB_TRY_VOID(sessions.update(row));
  KLAB_TRY(row,
           sessions.move(id, Move::select_source, {{"file", allowed.path.string()}, {"by", lab.front_end}}));
  return with_session(Json{{"selected", allowed.path.string()}}, row);
}

Result<Json> session_build(Lab& lab, const Json& arguments) {
  std::string id, text, language;
  BuildRequest request;
  Fields fields(arguments, "session.build");
  fields.need("session", id).take("source_text", text).take("language", language);
  KLAB_TRY_VOID(take_build(fields, request).done());
  const bool inline_text = arguments.contains("source_text");
  if (inline_text && (!request.source.empty() || ending_of(language) == nullptr))
    return fail(ErrorCode::usage,
                "session.build: source_text goes with language glsl, spirv, cuda or ptx, and without source",
                "or give source: a file below the roots");
  if (text.size() > kMostSource)
    return fail(ErrorCode::cap_reached, "session.build: a source of more than 8 MiB");
  if (request.name.find_first_of("/\\") != std::string::npos ||
      request.name.find('\0') != std::string::npos || request.name.size() > 128 || request.name == ".." ||
      request.name == ".")
    return fail(ErrorCode::usage, "session.build: a name has no slashes and at most 128 bytes",
                "name: \"wide-loads\"");
  return work_in_session(lab, id, "build", Move::build, arguments, [&](SessionWork& work) -> Result<Json> {
    KLAB_TRY(request.bundle, session_bundle(work.row));
    if (inline_text) {
      const fs::path folder = work.folder / "variants" / to_string(hash_text(text)).substr(0, 12);
      KLAB_TRY_VOID(make_folders(folder));
      request.source = folder / ((request.name.empty() ? "variant" : request.name) + ending_of(language));
      // Named by its content: the same text again is the same variant.
      KLAB_TRY_VOID(write_file_atomic(request.source, text, 0600));
      request.text = text;
    } else if (!request.source.empty()) {
      KLAB_TRY(const Allowed file, open_allowed(work.row.roots, request.source.string(), PathKind::file));
      request.source = file.path;
      KLAB_TRY(request.text, read_allowed(file, kMostSource));
    }
    KLAB_TRY_VOID(check_options(work, request));
    if (request.text && lab.front_end != "cli")
      KLAB_TRY_VOID(check_includes(work, *request.text, request.source));
    KLAB_TRY(const Built built, build_variant(lab, request));
    KLAB_TRY_VOID(work.store.history().link_variant(id, built.variant.id));
    work.said["variant"] = built.variant.id;
    work.said["name"] = built.variant.name;
    return Json(built);
  });
}

}  // namespace klab::ops
