// SPDX-License-Identifier: Apache-2.0
#include "compile/glsl/glsl.h"

#include <charconv>

#include <fmt/format.h>
#include <glslang/build_info.h>
#include <shaderc/shaderc.hpp>

#include "compile/glsl/includer.h"

namespace klab::compile {
namespace {

struct IncludeAnswer {
  shaderc_include_result result{};
  Included file;
};

class Includer : public shaderc::CompileOptions::IncluderInterface {
 public:
  explicit Includer(IncludeFinder& finder) : finder_(finder) {}
  shaderc_include_result* GetInclude(const char* requested, shaderc_include_type type, const char* requesting,
                                     std::size_t depth) override {
    auto answer = std::make_unique<IncludeAnswer>();
    const bool relative = type == shaderc_include_type_relative;
    auto found = finder_.find(requested, requesting, relative, depth);
    if (found) {
      answer->file = std::move(*found);
    } else {
      // A "..." that failed is asked for again as <...>: the first reason is the one to tell.
      const std::string what =
          found.error().what + (found.error().hint.empty() ? "" : " (" + found.error().hint + ")");
      if (relative) failed_ = requested, why_ = what;
      // shaderc's way to say no: no name, and the reason as content.
      answer->file.content = !relative && failed_ == requested ? why_ : what;
    }
    answer->result = {answer->file.name.data(), answer->file.name.size(), answer->file.content.data(),
                      answer->file.content.size(), answer.get()};
    return &answer.release()->result;
  }
  void ReleaseInclude(shaderc_include_result* result) override {
    delete static_cast<IncludeAnswer*>(result->user_data);
  }

 private:
  IncludeFinder& finder_;
  std::string failed_, why_;
};

bool is_macro_name(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !name.empty() && letter(name[0]) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

Status set_options(shaderc::CompileOptions& shaderc, const Options& options) {
  KLAB_TRY(const Target target, parse_target(options.target));
  shaderc.SetSourceLanguage(shaderc_source_language_glsl);
  shaderc.SetTargetEnvironment(shaderc_target_env_vulkan, target.vulkan);
  shaderc.SetTargetSpirv(static_cast<shaderc_spirv_version>(target.spirv));
  if (options.optimisation == "none")
    shaderc.SetOptimizationLevel(shaderc_optimization_level_zero);
  else if (options.optimisation == "size")
    shaderc.SetOptimizationLevel(shaderc_optimization_level_size);
  else if (options.optimisation == "performance")
    shaderc.SetOptimizationLevel(shaderc_optimization_level_performance);
  else
    return fail(ErrorCode::usage, fmt::format("unknown optimisation \"{}\"", options.optimisation),
                "none, size or performance");
  if (options.debug_info) shaderc.SetGenerateDebugInfo();
  for (const std::string& define : options.defines) {
    const auto equals = define.find('=');
    const std::string name = define.substr(0, equals);
    if (!is_macro_name(name))
      return fail(ErrorCode::usage, fmt::format("\"{}\" is no macro definition", define),
                  "NAME or NAME=VALUE");
    // As every C compiler has it, NAME alone is NAME=1 only for C; glslc defines it empty, and so do we.
    if (equals == std::string::npos)
      shaderc.AddMacroDefinition(name);
    else
      shaderc.AddMacroDefinition(name, define.substr(equals + 1));
  }
  return {};
}

}  // namespace

std::vector<Message> parse_messages(std::string_view log) {
  std::vector<Message> messages;
  static constexpr std::pair<std::string_view, Severity> kMarks[] = {
      {": error: ", Severity::error}, {": warning: ", Severity::warning}, {": note: ", Severity::note}};
  while (!log.empty()) {
    const auto end = std::min(log.find('\n'), log.size());
    const std::string_view line = log.substr(0, end);
    log.remove_prefix(std::min(end + 1, log.size()));
    if (line.empty()) continue;
    std::size_t at = std::string_view::npos;
    Message m;
    std::size_t length = 0;
    for (const auto& [mark, severity] : kMarks)
      if (const auto found = line.find(mark); found < at)
        at = found, m.severity = severity, length = mark.size();
    if (at == std::string_view::npos) {
      if (!messages.empty())
        messages.back().text += "\n" + std::string(line);
      else
        messages.push_back({Severity::note, "", 0, std::string(line)});
      continue;
    }
    std::string_view where = line.substr(0, at);
    m.text = line.substr(at + length);
    if (const auto colon = where.rfind(':'); colon != std::string_view::npos) {
      const std::string_view digits = where.substr(colon + 1);
      const auto [stop, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), m.line);
      if (ec == std::errc() && stop == digits.data() + digits.size())
        where = where.substr(0, colon);
      else
        m.line = 0;
    }
    m.file = where;
    messages.push_back(std::move(m));
  }
  return messages;
}

GlslOutcome compile_glsl(const std::string& text, const std::string& name, const Options& options) {
  GlslOutcome outcome;
  shaderc::CompileOptions shaderc;
  if (auto s = set_options(shaderc, options); !s) {
    outcome.code = fail(s.error());
    return outcome;
  }
  IncludeFinder finder(options.include_folders, name);
  shaderc.SetIncluder(std::make_unique<Includer>(finder));
  // Kept: with the last one goes glslang's table of built-in names, 0.1 s to make again.
  static const shaderc::Compiler compiler;
  // A `#pragma shader_stage` in the text wins over the default; what is no compute shader then is found
  // below.
  const auto result =
      compiler.CompileGlslToSpv(text.data(), text.size(), shaderc_glsl_default_compute_shader,
                                name.empty() ? "source" : name.c_str(), options.entry_point.c_str(), shaderc);
  outcome.log = result.GetErrorMessage();
  outcome.messages = parse_messages(outcome.log);
  outcome.dependencies = finder.dependencies();
  if (result.GetCompilationStatus() == shaderc_compilation_status_success) {
    outcome.code = Words(result.cbegin(), result.cend());
    return outcome;
  }
  const auto first = std::find_if(outcome.messages.begin(), outcome.messages.end(),
                                  [](const Message& m) { return m.severity == Severity::error; });
  if (first == outcome.messages.end()) {
    outcome.code = fail(ErrorCode::compile_failed, fmt::format("{} does not compile: {}", name, outcome.log));
  } else {
    const auto errors = std::count_if(outcome.messages.begin(), outcome.messages.end(),
                                      [](const Message& m) { return m.severity == Severity::error; });
    outcome.code =
        fail(ErrorCode::compile_failed,
             fmt::format("{}{}: {}{}", first->file, first->line != 0 ? fmt::format(":{}", first->line) : "",
                         first->text, errors > 1 ? fmt::format(" (and {} more)", errors - 1) : ""));
  }
  return outcome;
}

std::string glsl_version() {
  return fmt::format("shaderc with glslang {}.{}.{}", GLSLANG_VERSION_MAJOR, GLSLANG_VERSION_MINOR,
                     GLSLANG_VERSION_PATCH);
}

}  // namespace klab::compile
