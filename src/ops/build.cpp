// SPDX-License-Identifier: Apache-2.0
#include "ops/build.h"

#include <charconv>
#include <cstring>

#include <fmt/format.h>

#include "base/ids.h"
#include "bundle/hsaco.h"
#include "compile/cache.h"
#include "compile/protocol.h"
#include "ops/build_cuda.h"

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

Result<bundle::Dim3> parse_dim(const std::string& text, const std::string& what) {
  bundle::Dim3 dim{1, 1, 1};
  const char* p = text.data();
  const char* end = p + text.size();
  for (std::size_t i = 0; i < 3; ++i) {
    const auto parsed = std::from_chars(p, end, dim[i]);
    if (parsed.ec != std::errc() || dim[i] == 0)
      return fail(ErrorCode::usage, fmt::format("{} is not a {}", text, what),
                  fmt::format("give counts: --{0} 64 or --{0} 8,8,1", what));
    p = parsed.ptr;
    if (p == end) return dim;
    if ((*p != ',' && *p != 'x') || i == 2) break;
    ++p;
  }
  return fail(ErrorCode::usage, fmt::format("{} is not a {}", text, what),
              "give one to three numbers with commas");
}

Result<replay::LaunchOverride> parse_launch(const LaunchText& text, const compile::Reflection* reflection,
                                            std::string_view api) {
  replay::LaunchOverride launch;
  if (api == "vulkan" &&
      !(text.block.empty() && text.cluster.empty() && text.dynamic_shared.empty() && text.attributes.empty()))
    return fail(ErrorCode::usage, "a Vulkan shader has its block size and shared memory compiled in",
                "change them in the source, or by --spec");
  if (!api.empty() && api != "vulkan" &&
      !(text.spec_constants.empty() && text.push_constants.empty() && text.subgroup_size == 0))
    return fail(ErrorCode::usage, "specialization constants, push constants and subgroup sizes are Vulkan's",
                "CUDA and HIP launches take --grid, --block, --cluster, --dynamic-shared and --attribute");
  if (!text.grid.empty()) {
    KLAB_TRY(launch.grid, parse_dim(text.grid, "grid"));
  }
  if (!text.block.empty()) {
    KLAB_TRY(launch.block, parse_dim(text.block, "block"));
  }
  if (!text.cluster.empty()) {
    KLAB_TRY(launch.cluster, parse_dim(text.cluster, "cluster"));
  }
  if (!text.dynamic_shared.empty()) {
    std::uint32_t bytes = 0;
    const char* end = text.dynamic_shared.data() + text.dynamic_shared.size();
    const auto parsed = std::from_chars(text.dynamic_shared.data(), end, bytes);
    const std::string unit(parsed.ptr, end);
    if (parsed.ec != std::errc() || (!unit.empty() && unit != "K" && unit != "k") ||
        (!unit.empty() && bytes > 4096))
      return fail(ErrorCode::usage, fmt::format("{} is not a size", text.dynamic_shared),
                  "bytes: --dynamic-shared 49152 or --dynamic-shared 48K");
    launch.dynamic_shared_bytes = unit.empty() ? bytes : bytes * 1024;
  }
  for (const std::string& one : text.attributes) {
    const auto at = one.find('=');
    std::int64_t value = 0;
    const char* end = one.data() + one.size();
    const auto parsed = at == std::string::npos ? std::from_chars_result{end, std::errc::invalid_argument}
                                                : std::from_chars(one.data() + at + 1, end, value);
    if (at == 0 || parsed.ec != std::errc() || parsed.ptr != end)
      return fail(ErrorCode::usage, fmt::format("{} is not NAME=INTEGER", one),
                  "for example --attribute function.preferred_shared_memory_carveout=100");
    launch.attributes[one.substr(0, at)] = value;
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

void merge_launch(replay::LaunchOverride& launch, const replay::LaunchOverride& more) {
  if (more.grid) launch.grid = more.grid;
  if (more.block) launch.block = more.block;
  if (more.cluster) launch.cluster = more.cluster;
  if (more.subgroup_size) launch.subgroup_size = more.subgroup_size;
  if (more.dynamic_shared_bytes) launch.dynamic_shared_bytes = more.dynamic_shared_bytes;
  if (more.entry_point) launch.entry_point = more.entry_point;
  for (const auto& [id, value] : more.spec_constants) launch.spec_constants[id] = value;
  for (const auto& [offset, bytes] : more.push_constants) launch.push_constants[offset] = bytes;
  for (const auto& [name, value] : more.attributes) launch.attributes[name] = value;
}

std::string kind_of_code(std::string_view bytes) {
  const auto raw = std::as_bytes(std::span(bytes));
  if (bundle::looks_like_hsaco(raw) || bundle::looks_like_offload_bundle(raw)) return "hsaco";
  if (bytes.starts_with("\x7f"
                        "ELF"))
    return "cubin";
  // SPIR-V's first word, in either byte order.
  if (bytes.starts_with("\x03\x02\x23\x07") || bytes.starts_with("\x07\x23\x02\x03")) return "spirv";
  return bytes.substr(0, 1u << 16).find(".version") != std::string_view::npos ? "ptx" : "spirv";
}

Result<CodeFacts> reflect_code(Lab& lab, const fs::path& code, bool instructions) {
  KLAB_TRY(const std::string bytes, read_file(code, 1ull << 30));
  const std::string kind = kind_of_code(bytes);
  KLAB_TRY(compile::Answer answer, lab.compiler().ask({.verb = "reflect",
                                                       .language = kind,
                                                       .source = fs::absolute(code).string(),
                                                       .instructions = instructions}));
  if (!answer.ok)
    return fail(answer.error ? *answer.error
                             : Error{ErrorCode::invalid_data,
                                     fmt::format("{} is not valid {}", code.string(), kind), "", 0});
  return CodeFacts{std::move(answer.reflection), std::move(answer.cuda)};
}

namespace {

Status build_shader(Lab& lab, const BuildRequest& request, const std::string& text, session::VariantRow& row,
                    Built& built) {
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
  KLAB_TRY(built.compiler, compile::compile_cached(job, klab_cache() / "builds", 120, &lab.compiler()));
  return {};
}

}  // namespace

void to_json(Json& j, const Built& v) {
  j = Json{{"variant", v.variant},
           {"same_code", v.same_code},
           {"existed", v.existed},
           {"messages", v.compiler.messages},
           {"compiler", v.compiler.compiler},
           {"cached", v.compiler.cached},
           {"compile_ms", v.compiler.compile_ms},
           {"log", v.compiler.log}};
  if (v.cuda) {
    j["cuda"] = *v.cuda;
    if (v.compiler.cuda) j["module"] = *v.compiler.cuda;
  } else {
    j["reflection"] = v.compiler.reflection;
  }
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
    KLAB_TRY(CodeFacts facts, reflect_code(lab, captured));
    built.compiler.reflection = std::move(facts.reflection);
  } else {
    std::string text;
    if (request.text) {
      text = *request.text;
    } else {
      KLAB_TRY(text, read_file(request.source, 256u << 20));
    }
    KLAB_TRY_VOID(make_folders(folder));
    row.language = language_of(request.source);
    const bool cuda = is_cuda(manifest);
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
    if (cuda) {
      KLAB_TRY_VOID(build_cuda(lab, opened, request, text, folder, row, built));
    } else {
      KLAB_TRY_VOID(build_shader(lab, request, text, row, built));
    }
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
  if (is_cuda(manifest)) {
    if (request.source.empty()) {
      KLAB_TRY(row.launch, parse_launch(request.launch, nullptr, manifest.device.api));
      KLAB_TRY(const CudaBaseline baseline, cuda_baseline(lab, opened, request.instructions));
      built.cuda = cuda_report(opened, baseline, baseline.kernel, row.launch);
      built.cuda->arch = baseline.facts.arch;
    }
  } else {
    KLAB_TRY(row.launch, parse_launch(request.launch, &built.compiler.reflection, manifest.device.api));
  }
  built.same_code = built.same_code || row.code_hash == captured_hash;
  KLAB_TRY(auto equal, store->equal_variant(row));
  if (equal && (request.name.empty() || request.name == equal->name)) {
    built.existed = true;
    built.variant = std::move(*equal);
    return built;
  }
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
  if ((v.language != "glsl" && v.language != "cuda" && v.language != "ptx" && v.language != "hip") || v.source_copy.empty())
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
