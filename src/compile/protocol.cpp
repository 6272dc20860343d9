// SPDX-License-Identifier: Apache-2.0
#include "compile/protocol.h"

#include <cstdlib>

#include <fmt/format.h>

#include "base/subprocess.h"

namespace klab::compile {
namespace {

// A lone lead byte, an overlong form or a surrogate is not worth telling apart from Latin-1: nlohmann
// decides.
bool is_utf8(const std::string& text) {
  try {
    (void)Json(text).dump();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

std::string last_lines(std::string_view text, int lines) {
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  std::size_t at = text.size();
  while (lines-- > 0 && at != std::string_view::npos && at > 0) at = text.rfind('\n', at - 1);
  return std::string(at == std::string_view::npos || at == 0 ? text : text.substr(at + 1));
}

Answer failed_answer(std::string what, std::string_view err, std::string hint) {
  Answer answer;
  if (const std::string tail = last_lines(err, 8); !tail.empty()) what += "; its last words: " + tail;
  answer.error = Error{ErrorCode::compile_failed, std::move(what), std::move(hint)};
  answer.log = std::string(err);
  return answer;
}

}  // namespace

void to_json(Json& j, const Message& v) {
  j = Json{{"severity", v.severity}, {"file", v.file}, {"line", v.line}, {"text", v.text}};
}
void from_json(const Json& j, Message& v) {
  read_required(j, "severity", v.severity);
  read_optional(j, "file", v.file);
  read_optional(j, "line", v.line);
  read_required(j, "text", v.text);
}

void to_json(Json& j, const Options& v) {
  j = Json{{"include_folders", v.include_folders}, {"defines", v.defines},
           {"optimisation", v.optimisation},       {"target", v.target},
           {"entry_point", v.entry_point},         {"debug_info", v.debug_info}};
}
void from_json(const Json& j, Options& v) {
  read_optional(j, "include_folders", v.include_folders);
  read_optional(j, "defines", v.defines);
  read_optional(j, "optimisation", v.optimisation);
  read_optional(j, "target", v.target);
  read_optional(j, "entry_point", v.entry_point);
  read_optional(j, "debug_info", v.debug_info);
}

void to_json(Json& j, const ReflectedBinding& v) {
  j = Json{
      {"set", v.set},   {"binding", v.binding}, {"count", v.count},         {"type", v.type},
      {"name", v.name}, {"size_bytes", v.size}, {"read_only", v.read_only}, {"write_only", v.write_only}};
}
void from_json(const Json& j, ReflectedBinding& v) {
  read_required(j, "set", v.set);
  read_required(j, "binding", v.binding);
  read_optional(j, "count", v.count);
  read_optional(j, "type", v.type);
  read_optional(j, "name", v.name);
  read_optional(j, "size_bytes", v.size);
  read_optional(j, "read_only", v.read_only);
  read_optional(j, "write_only", v.write_only);
}

void to_json(Json& j, const ReflectedSpec& v) {
  j = Json{{"id", v.id}, {"name", v.name}, {"type", v.type}, {"default_value", v.default_value}};
}
void from_json(const Json& j, ReflectedSpec& v) {
  read_required(j, "id", v.id);
  read_optional(j, "name", v.name);
  read_optional(j, "type", v.type);
  read_optional(j, "default_value", v.default_value);
}

void to_json(Json& j, const Reflection& v) {
  j = Json{{"version", v.version},
           {"entry_points", v.entry_points},
           {"block", v.block},
           {"block_from_spec", v.block_from_spec},
           {"bindings", v.bindings},
           {"spec_constants", v.spec_constants},
           {"push_constant_bytes", v.push_constant_bytes},
           {"shared_bytes", v.shared_bytes},
           {"instructions", v.instructions},
           {"matrix_instructions", v.matrix_instructions},
           {"atomic_instructions", v.atomic_instructions},
           {"barrier_instructions", v.barrier_instructions},
           {"float_atomics", v.float_atomics},
           {"capabilities", v.capabilities},
           {"source_files", v.source_files},
           {"source_text", v.source_text},
           {"source_language", v.source_language},
           {"uses_physical_addresses", v.uses_physical_addresses}};
}
void from_json(const Json& j, Reflection& v) {
  read_optional(j, "version", v.version);
  read_optional(j, "entry_points", v.entry_points);
  read_optional(j, "block", v.block);
  read_optional(j, "block_from_spec", v.block_from_spec);
  read_optional(j, "bindings", v.bindings);
  read_optional(j, "spec_constants", v.spec_constants);
  read_optional(j, "push_constant_bytes", v.push_constant_bytes);
  read_optional(j, "shared_bytes", v.shared_bytes);
  read_optional(j, "instructions", v.instructions);
  read_optional(j, "matrix_instructions", v.matrix_instructions);
  read_optional(j, "atomic_instructions", v.atomic_instructions);
  read_optional(j, "barrier_instructions", v.barrier_instructions);
  read_optional(j, "float_atomics", v.float_atomics);
  read_optional(j, "capabilities", v.capabilities);
  read_optional(j, "source_files", v.source_files);
  read_optional(j, "source_text", v.source_text);
  read_optional(j, "source_language", v.source_language);
  read_optional(j, "uses_physical_addresses", v.uses_physical_addresses);
}

void to_json(Json& j, const Request& v) {
  j = Json{{"verb", v.verb},
           {"language", v.language},
           {"source", v.source},
           {"output", v.output},
           {"options", v.options}};
  if (!v.batch.empty()) j["batch"] = v.batch;
  if (v.source_text.empty()) return;
  if (is_utf8(v.source_text))
    j["source_text"] = v.source_text;
  else
    j["source_bytes"] = to_hex(std::as_bytes(std::span(v.source_text)));
}
void from_json(const Json& j, Request& v) {
  read_required(j, "verb", v.verb);
  read_optional(j, "language", v.language);
  read_optional(j, "source", v.source);
  read_optional(j, "source_text", v.source_text);
  if (j.contains("source_bytes")) {
    Bytes bytes;
    read_optional(j, "source_bytes", bytes);
    v.source_text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  read_optional(j, "output", v.output);
  read_optional(j, "options", v.options);
  read_optional(j, "batch", v.batch);
}

void to_json(Json& j, const Dependency& v) { j = Json{{"path", v.path}, {"hash", v.hash}}; }
void from_json(const Json& j, Dependency& v) {
  read_required(j, "path", v.path);
  read_required(j, "hash", v.hash);
}

void to_json(Json& j, const Answer& v) {
  j = Json{{"ok", v.ok},
           {"messages", v.messages},
           {"log", v.log},
           {"output", v.output},
           {"hash", v.hash},
           {"stripped_hash", v.stripped_hash},
           {"compiler", v.compiler},
           {"dependencies", v.dependencies},
           {"cached", v.cached},
           {"reflection", v.reflection}};
  if (v.error) j["error"] = *v.error;
  if (!v.disassembly.empty()) j["disassembly"] = v.disassembly;
  if (!v.batch.empty()) j["batch"] = v.batch;
}
void from_json(const Json& j, Answer& v) {
  read_required(j, "ok", v.ok);
  if (j.contains("error")) v.error = j.at("error").get<Error>();
  read_optional(j, "messages", v.messages);
  read_optional(j, "log", v.log);
  read_optional(j, "output", v.output);
  read_optional(j, "hash", v.hash);
  read_optional(j, "stripped_hash", v.stripped_hash);
  read_optional(j, "compiler", v.compiler);
  read_optional(j, "dependencies", v.dependencies);
  read_optional(j, "cached", v.cached);
  read_optional(j, "reflection", v.reflection);
  read_optional(j, "disassembly", v.disassembly);
  read_optional(j, "batch", v.batch);
}

fs::path compiler_program() {
  const char* path = std::getenv("KLAB_COMPILE");
  return path != nullptr && *path != '\0' ? fs::path(path) : program_folder() / "klab-compile";
}

Result<Answer> run_compiler(const Request& request, double limit_s) {
  const fs::path program = compiler_program();
  std::string text;
  try {
    text = Json(request).dump();
  } catch (const std::exception& e) {
    return fail(ErrorCode::usage,
                fmt::format("a path or option given to the compiler is not UTF-8: {}", e.what()),
                "rename the file or folder");
  }
  SpawnOptions spawn;
  spawn.argv = {program.string()};
  spawn.die_with_parent = true;
  auto finished = run_program(std::move(spawn), text,
                              std::chrono::milliseconds(static_cast<long>(limit_s * 1e3)), 256u << 20);
  if (!finished) {
    const ErrorCode code = finished.error().code;
    if (code == ErrorCode::not_found || code == ErrorCode::environment)
      return fail(ErrorCode::environment,
                  fmt::format("klab-compile cannot be run: {}", finished.error().what),
                  fmt::format("it belongs at {}; build or install Klab again", program.string()));
    return fail(finished.error());
  }
  const std::string what = request.source.empty() ? "the source" : request.source;
  if (finished->timed_out)
    return failed_answer(
        fmt::format("the compiler did not finish {} within {} s and was ended", what, limit_s), finished->err,
        "look for a loop that is unrolled without end, or lower the optimisation");
  if (finished->status.signal != 0)
    return failed_answer(
        fmt::format("the compiler crashed on {}: klab-compile {}", what, to_string(finished->status)),
        finished->err, "try another optimisation level; a smaller source that still crashes helps");
  auto json = parse_json(finished->out, "klab-compile's answer");
  auto answer =
      json ? decode_json<Answer>(*json, "klab-compile's answer") : Result<Answer>(fail(json.error()));
  if (answer && !answer->ok && !answer->error) answer = fail(ErrorCode::invalid_data, "it names no error");
  if (answer && answer->batch.size() != request.batch.size())
    answer = fail(ErrorCode::invalid_data,
                  fmt::format("{} answers to {} requests", answer->batch.size(), request.batch.size()));
  if (!answer)
    return failed_answer(fmt::format("klab-compile {} without a usable answer on {}: {}",
                                     to_string(finished->status), what, answer.error().what),
                         finished->err, "build or install Klab again");
  return answer;
}

}  // namespace klab::compile
