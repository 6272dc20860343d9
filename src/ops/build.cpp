// SPDX-License-Identifier: Apache-2.0
#include "ops/build.h"

#include <charconv>
#include <cstring>

#include <fmt/format.h>

#include "base/ids.h"
#include "compile/cache.h"
#include "compile/protocol.h"

namespace klab::ops {
namespace {

std::string resolved(const fs::path& path) {
  std::error_code ec;
  const fs::path canonical = fs::weakly_canonical(path, ec);
  return (ec ? fs::absolute(path) : canonical).string();
}

std::string language_of(const fs::path& source) {
  const std::string extension = source.extension().string();
  return extension == ".spv" || extension == ".spvasm" ? "spirv" : "glsl";
}

/// "a=b" split at the first '='.
Result<std::pair<std::uint32_t, std::string>> numbered(const std::string& text, const char* what) {
  const auto at = text.find('=');
  std::uint32_t number = 0;
  const char* end = text.data() + (at == std::string::npos ? 0 : at);
  const auto parsed = std::from_chars(text.data(), end, number);
  if (at == std::string::npos || parsed.ec != std::errc() || parsed.ptr != end)
    return fail(ErrorCode::usage, fmt::format("{} is not NUMBER=VALUE", text),
                fmt::format("for example --{}", what));
  return std::pair(number, text.substr(at + 1));
}

template <class T>
Bytes bytes_of(T value) {
  Bytes bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

Result<Bytes> typed_value(const std::string& type, const std::string& text) {
  auto bad = [&] { return fail(ErrorCode::usage, fmt::format("{} is not a value of type {}", text, type)); };
  if (type == "bool") {
    if (text == "true" || text == "1") return bytes_of<std::uint32_t>(1);
    if (text == "false" || text == "0") return bytes_of<std::uint32_t>(0);
    return bad();
  }
  char* end = nullptr;
  errno = 0;
  if (type == "float" || type == "double" || type == "float16") {
    const double value = std::strtod(text.c_str(), &end);
    if (end == text.c_str() || *end != '\0') return bad();
    if (type == "double") return bytes_of(value);
    if (type == "float") return bytes_of(static_cast<float>(value));
    return fail(ErrorCode::unsupported, "a float16 specialization constant is not set by number yet");
  }
  const long long value = text[0] == '-' ? std::strtoll(text.c_str(), &end, 0)
                                         : static_cast<long long>(std::strtoull(text.c_str(), &end, 0));
  if (end == text.c_str() || *end != '\0' || errno == ERANGE) return bad();
  if (type == "int64" || type == "uint64") return bytes_of(value);
  if (value > 0xffffffffll || value < -0x80000000ll) return bad();
  return bytes_of(static_cast<std::uint32_t>(value));
}

std::string messages_text(const compile::Answer& answer) {
  std::string text;
  for (const compile::Message& m : answer.messages)
    text += fmt::format("{}{}: {}: {}\n", m.file, m.line > 0 ? fmt::format(":{}", m.line) : "",
                        to_string(m.severity), m.text);
  if (text.empty()) text = answer.error ? answer.error->what + "\n" : answer.log;
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace

Result<Found> find_source(Lab& lab, const fs::path& path, std::uint32_t dispatch,
                          const variant::FindRequest& request) {
  KLAB_TRY(OpenBundle opened, open_bundle(lab, path));
  KLAB_TRY_VOID(check_dispatch(opened, dispatch));
  Found found;
  KLAB_TRY(found.candidates, variant::find_source(opened.reader, dispatch, request));
  if (found.candidates.empty()) return found;
  const variant::Candidate& best = found.candidates.front();
  if (best.evidence == variant::Evidence::same_code || best.evidence == variant::Evidence::embedded_source) {
    KLAB_TRY_VOID(select_source(lab, path, best.file, best.options));
    found.selected = best.file;
  }
  return found;
}

Status select_source(Lab& lab, const fs::path& path, const fs::path& file, const compile::Options& options) {
  KLAB_TRY(OpenBundle opened, open_bundle(lab, path));
  KLAB_TRY(const std::string text, read_file(file, 64u << 20));
  KLAB_TRY(session::Store * store, lab.store());
  return store->select_source(opened.id, resolved(file), to_string(hash_text(text)), options);
}

Result<replay::LaunchOverride> parse_launch(const LaunchText& text, const compile::Reflection* reflection) {
  replay::LaunchOverride launch;
  if (!text.grid.empty()) {
    bundle::Dim3 grid{1, 1, 1};
    const char* p = text.grid.data();
    const char* end = p + text.grid.size();
    for (std::size_t i = 0; i < 3; ++i) {
      const auto parsed = std::from_chars(p, end, grid[i]);
      if (parsed.ec != std::errc() || grid[i] == 0)
        return fail(ErrorCode::usage, fmt::format("{} is not a grid", text.grid),
                    "give workgroup counts: --grid 64 or --grid 8,8,1");
      p = parsed.ptr;
      if (p == end) break;
      if ((*p != ',' && *p != 'x') || i == 2)
        return fail(ErrorCode::usage, fmt::format("{} is not a grid", text.grid),
                    "give one to three numbers with commas");
      ++p;
    }
    launch.grid = grid;
  }
  for (const std::string& one : text.spec_constants) {
    KLAB_TRY(auto pair, numbered(one, "spec 0=64"));
    std::string type = "uint32";
    bool known = reflection == nullptr;
    if (reflection != nullptr)
      for (const compile::ReflectedSpec& s : reflection->spec_constants)
        if (s.id == pair.first) type = s.type, known = true;
    if (!known) {
      std::string ids;
      for (const compile::ReflectedSpec& s : reflection->spec_constants)
        ids += fmt::format("{}{}", ids.empty() ? "" : ", ",
                           s.name.empty() ? std::to_string(s.id) : fmt::format("{} ({})", s.id, s.name));
      return fail(ErrorCode::usage, fmt::format("the code has no specialization constant {}", pair.first),
                  ids.empty() ? "it has none at all" : "it has: " + ids);
    }
    KLAB_TRY(launch.spec_constants[pair.first], typed_value(type, pair.second));
  }
  for (const std::string& one : text.push_constants) {
    KLAB_TRY(auto pair, numbered(one, "push 16=0000803f"));
    auto bytes = from_hex(pair.second);
    if (!bytes || bytes->empty())
      return fail(ErrorCode::usage, fmt::format("{} is not hexadecimal bytes", pair.second),
                  "give bytes in memory order: --push 0=0000803f is the float 1.0");
    launch.push_constants[pair.first] = std::move(*bytes);
  }
  if (text.subgroup_size != 0) launch.subgroup_size = text.subgroup_size;
  return launch;
}

Result<compile::Reflection> reflect_code(const fs::path& code) {
  KLAB_TRY(compile::Answer answer,
           compile::run_compiler({.verb = "reflect", .language = "spirv", .source = code.string()}));
  if (!answer.ok)
    return fail(answer.error ? *answer.error
                             : Error{ErrorCode::invalid_data, code.string() + " is not valid SPIR-V", "", 0});
  return answer.reflection;
}

Result<Built> build_variant(Lab& lab, const BuildRequest& request) {
  KLAB_TRY(OpenBundle opened, open_bundle(lab, request.bundle));
  KLAB_TRY(session::Store * store, lab.store());
  KLAB_TRY(const auto bundle_row, store->bundle(opened.id));
  const bundle::Manifest& manifest = opened.reader.manifest();
  const std::string captured_hash =
      manifest.code.empty()
          ? ""
          : manifest.code[std::min<std::size_t>(manifest.dispatches[0].code, manifest.code.size() - 1)].hash;

  session::VariantRow row;
  row.id = "v" + new_id(7);
  row.bundle = opened.id;
  row.name = request.name;
  row.target_file = bundle_row->source_file;
  row.target_hash = bundle_row->source_hash;
  Built built;
  const fs::path folder = lab.home() / "variants" / row.id;
  // A variant that is not stored leaves nothing behind.
  struct Cleanup {
    fs::path folder;
    bool keep = false;
    ~Cleanup() {
      std::error_code ec;
      if (!keep) fs::remove_all(folder, ec);
    }
  } cleanup{folder};

  if (request.source.empty()) {
    if (request.launch.empty())
      return fail(ErrorCode::usage, "nothing differs: give --source, or a launch override such as --grid",
                  "klab build BUNDLE --source FILE");
    if (row.name.empty()) row.name = "launch";
    row.code_hash = captured_hash;
    const fs::path captured = opened.reader.path() / manifest.code[manifest.dispatches[0].code].file;
    KLAB_TRY(built.compiler.reflection, reflect_code(captured));
  } else {
    KLAB_TRY(const std::string text, read_file(request.source, 256u << 20));
    KLAB_TRY_VOID(make_folders(folder));
    row.language = language_of(request.source);
    row.source_file = resolved(request.source);
    row.source_hash = to_string(hash_text(text));
    row.source_copy = (folder / request.source.filename()).string();
    if (row.name.empty()) row.name = request.source.stem().string();
    row.options = request.options.value_or(bundle_row->source_options);
    for (const std::string& d : request.more_defines) row.options.defines.push_back(d);
    for (const std::string& i : request.more_includes) row.options.include_folders.push_back(resolved(i));
    row.options.entry_point =
        manifest.dispatches[0].entry_point.empty() ? "main" : manifest.dispatches[0].entry_point;
    row.code = (folder / "code.spv").string();
    KLAB_TRY_VOID(write_file_atomic(row.source_copy, text));
    compile::Request job{.verb = "compile",
                         .language = row.language,
                         .source = request.source.string(),
                         .output = row.code,
                         .options = row.options};
    // The text that was hashed is the text that is compiled, whatever happens to the file meanwhile.
    if (row.language == "glsl")
      job.source_text = text;
    else
      job.source = row.source_copy;
    // An edited copy elsewhere still finds the headers beside the original.
    if (!row.target_file.empty())
      job.options.include_folders.push_back(fs::path(row.target_file).parent_path().string());
    KLAB_TRY(built.compiler, compile::compile_cached(job, klab_cache() / "builds"));
    if (!built.compiler.ok) {
      const ErrorCode code = built.compiler.error ? built.compiler.error->code : ErrorCode::compile_failed;
      return fail(code == ErrorCode::internal ? ErrorCode::compile_failed : code,
                  messages_text(built.compiler), built.compiler.error ? built.compiler.error->hint : "");
    }
    row.code_hash = built.compiler.hash;
    row.compiler = built.compiler.compiler;
    // Edited in place: what would be rewritten is the file itself, as it was when the bundle selected it.
    if (!row.target_file.empty() && row.target_file == row.source_file) row.target_hash = row.source_hash;
  }
  KLAB_TRY(row.launch, parse_launch(request.launch, &built.compiler.reflection));
  built.same_code = row.code_hash == captured_hash;
  KLAB_TRY(built.variant, store->add_variant(std::move(row)));
  cleanup.keep = true;
  return built;
}

Result<Chosen> choose_variant(Lab& lab, const fs::path& path, const std::string& reference) {
  Chosen chosen;
  if (reference.empty() || reference == "baseline") return chosen;
  std::error_code ec;
  if (fs::is_regular_file(reference, ec)) {
    KLAB_TRY(Built built, build_variant(lab, {.bundle = path, .source = reference}));
    chosen.row = std::move(built.variant);
  } else {
    KLAB_TRY(OpenBundle opened, open_bundle(lab, path));
    KLAB_TRY(session::Store * store, lab.store());
    KLAB_TRY(chosen.row, store->variant(opened.id, reference));
  }
  chosen.code = {.label = chosen.row->name, .code = chosen.row->code, .launch = chosen.row->launch};
  return chosen;
}

Result<SavePreview> preview_save(Lab& lab, const SaveRequest& request) {
  KLAB_TRY(OpenBundle opened, open_bundle(lab, request.bundle));
  KLAB_TRY(session::Store * store, lab.store());
  SavePreview preview;
  KLAB_TRY(preview.variant, store->variant(opened.id, request.variant));
  const session::VariantRow& v = preview.variant;
  if (v.language != "glsl" || v.source_copy.empty())
    return fail(ErrorCode::usage, fmt::format("variant {} has no source text to save", v.name),
                "only a variant built from a source file can be saved; launch overrides belong in the "
                "program that dispatches");
  KLAB_TRY(const auto verdict, store->standing_verdict(opened.id, v.id));
  if (!verdict)
    return fail(ErrorCode::not_correct, fmt::format("variant {} has no verdict yet", v.name),
                fmt::format("run: klab compare {} --variant {}", request.bundle.string(), v.name));
  preview.verdict = *verdict;
  if (verdict->correctness != validate::Correctness::correct)
    return fail(ErrorCode::not_correct,
                fmt::format("variant {} is {}: {}", v.name, to_string(verdict->correctness), verdict->reason),
                "only a variant that was found correct is saved");
  fs::path file = request.file;
  std::string read_hash = v.target_hash;
  if (file.empty()) file = v.target_file;
  if (file.empty()) {
    KLAB_TRY(const auto row, store->bundle(opened.id));
    file = row->source_file;
    read_hash = row->source_hash;
  }
  if (file.empty())
    return fail(ErrorCode::usage, "it is not known which file this kernel comes from",
                fmt::format("run: klab source find {} --root DIR, or give --file", request.bundle.string()));
  if (!request.file.empty() && resolved(request.file) != v.target_file) read_hash.clear();
  KLAB_TRY(const std::string text, read_file(v.source_copy, 256u << 20));
  if (to_string(hash_text(text)) != v.source_hash)
    return fail(ErrorCode::bundle_corrupt,
                fmt::format("the kept source of variant {} is not what was built", v.name), "build it again");
  KLAB_TRY(preview.plan, variant::plan_save(file, text, read_hash));
  return preview;
}

}  // namespace klab::ops
