// SPDX-License-Identifier: Apache-2.0
#include "compile/service.h"

#include <fmt/format.h>

#include "base/hash.h"
#include "compile/cuda/build.h"
#include "compile/glsl/glsl.h"
#include "compile/nvrtc/nvrtc.h"
#include "compile/spirv/module.h"
#include "compile/spirv/reflect.h"

namespace klab::compile {
namespace {

constexpr std::uint64_t kMaxSourceBytes = 256u << 20;

bool has_stage_suffix(const fs::path& path) {
  static constexpr std::string_view kStages[] = {".vert",  ".frag", ".geom", ".tesc",  ".tese",
                                                 ".mesh",  ".task", ".rgen", ".rchit", ".rahit",
                                                 ".rmiss", ".rint", ".rcall"};
  const fs::path name = path.extension() == ".glsl" ? path.stem() : path.filename();
  return std::find(std::begin(kStages), std::end(kStages), name.extension().string()) != std::end(kStages);
}

std::string_view as_text(const Words& words) {
  return {reinterpret_cast<const char*>(words.data()), words.size() * 4};
}

Result<std::string> source_text(const Request& request) {
  if (!request.source_text.empty()) return request.source_text;
  if (request.source.empty()) return fail(ErrorCode::usage, "the request names no source");
  return read_file(request.source, kMaxSourceBytes);
}

Result<Words> compile_words(const Request& request, Answer& answer) {
  if (request.language != "glsl" && request.language != "spirv")
    return fail(ErrorCode::usage, fmt::format("unknown language \"{}\"", request.language),
                "glsl, spirv, cuda, ptx, cubin, hip or hsaco");
  if (request.language == "glsl" && has_stage_suffix(request.source))
    return fail(ErrorCode::unsupported, fmt::format("{} is not a compute shader", request.source),
                "name it .comp, or say #pragma shader_stage(compute)");
  KLAB_TRY(const std::string text, source_text(request));
  KLAB_TRY(const Target target, parse_target(request.options.target));
  if (request.language == "glsl") {
    GlslOutcome outcome = compile_glsl(text, request.source, request.options);
    answer.messages = std::move(outcome.messages);
    answer.log = std::move(outcome.log);
    answer.dependencies = std::move(outcome.dependencies);
    return std::move(outcome.code);
  }
  Words words;
  if (fs::path(request.source).extension() == ".spvasm") {
    KLAB_TRY(words, assemble(text, target, request.source, answer.messages));
  } else {
    KLAB_TRY(words, words_of(text));
  }
  KLAB_TRY_VOID(validate(words, target, request.source, answer.messages));
  return words;
}

Status check_entry_point(const Request& request, const Reflection& reflection) {
  const auto& names = reflection.entry_points;
  const std::string& wanted = request.options.entry_point;
  if (names.empty())
    return fail(ErrorCode::compile_failed, fmt::format("{} has no compute entry point", request.source),
                "Klab runs compute shaders only: .comp, or #pragma shader_stage(compute)");
  if (std::find(names.begin(), names.end(), wanted) != names.end()) return {};
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return fail(ErrorCode::missing_symbol,
              fmt::format("{} has no entry point \"{}\"; it has {}", request.source, wanted, list),
              fmt::format("ask for entry point {}", names.front()));
}

Status fill(const Request& request, Answer& answer) {
  const bool compiling = request.verb == "compile";
  Words words;
  if (compiling) {
    KLAB_TRY(words, compile_words(request, answer));
  } else if (request.verb == "reflect" || request.verb == "disassemble") {
    KLAB_TRY(const std::string bytes, source_text(request));
    KLAB_TRY(words, words_of(bytes));
  } else {
    return fail(ErrorCode::usage, fmt::format("unknown verb \"{}\"", request.verb),
                "compile, reflect, disassemble or batch");
  }
  answer.hash = to_string(hash_text(as_text(words)));
  if (request.verb == "disassemble") {
    KLAB_TRY(answer.disassembly, disassemble(words));
    if (auto facts = reflect(words)) answer.reflection = std::move(*facts);
    return {};
  }
  KLAB_TRY(answer.reflection, reflect(words));
  if (compiling) KLAB_TRY_VOID(check_entry_point(request, answer.reflection));
  if (auto stripped = strip(words)) answer.stripped_hash = to_string(hash_text(as_text(*stripped)));
  if (compiling && !request.output.empty()) {
    KLAB_TRY_VOID(write_file_atomic(request.output, as_text(words)));
    answer.output = request.output;
  }
  return {};
}

}  // namespace

void stay_warm(const fs::path& folder) { keep_precompiled_headers(folder); }

Answer serve(const Request& request) {
  Answer answer;
  const bool cuda = request.language == "cuda" || request.language == "ptx" || request.language == "cubin" ||
                    request.language == "hip" || request.language == "hsaco";
  if (!cuda) answer.compiler = fmt::format("{}, {}", glsl_version(), tools_version());
  if (request.verb == "batch") {
    for (const Request& one : request.batch)
      answer.batch.push_back(one.verb == "batch" ? Answer{} : serve(one));
    for (Answer& one : answer.batch)
      if (!one.ok && !one.error) one.error = Error{ErrorCode::usage, "a batch inside a batch", ""};
    answer.ok = true;
    return answer;
  }
  try {
    Status done;
    if (request.verb == "tools")
      answer.tools = cuda_tools();
    else
      done = cuda ? serve_cuda(request, answer) : fill(request, answer);
    if (!done) answer.error = done.error();
  } catch (const std::exception& e) {
    answer.error = Error{ErrorCode::compile_failed, fmt::format("{}: {}", request.source, e.what()), ""};
  }
  answer.ok = !answer.error;
  return answer;
}

}  // namespace klab::compile
