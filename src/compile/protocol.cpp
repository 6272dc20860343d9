// SPDX-License-Identifier: Apache-2.0
#include "compile/protocol.h"

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
  const Options usual;
  const auto put = [&](const char* name, const auto& value, const auto& same) {
    if (value != same) j[name] = value;
  };
  put("arch", v.arch, usual.arch);
  put("compiler", v.compiler, usual.compiler);
  put("hipcc", v.hipcc, usual.hipcc);
  put("standard", v.standard, usual.standard);
  put("kernel", v.kernel, usual.kernel);
  put("fast_math", v.fast_math, usual.fast_math);
  put("line_info", v.line_info, usual.line_info);
  put("max_registers", v.max_registers, usual.max_registers);
  put("extra", v.extra, usual.extra);
  put("project", v.project, usual.project);
}
void from_json(const Json& j, Options& v) {
  read_optional(j, "arch", v.arch);
  read_optional(j, "compiler", v.compiler);
  read_optional(j, "hipcc", v.hipcc);
  read_optional(j, "standard", v.standard);
  read_optional(j, "kernel", v.kernel);
  read_optional(j, "fast_math", v.fast_math);
  read_optional(j, "line_info", v.line_info);
  read_optional(j, "max_registers", v.max_registers);
  read_optional(j, "extra", v.extra);
  read_optional(j, "project", v.project);
  read_optional(j, "include_folders", v.include_folders);
  read_optional(j, "defines", v.defines);
  read_optional(j, "optimisation", v.optimisation);
  read_optional(j, "target", v.target);
  read_optional(j, "entry_point", v.entry_point);
  read_optional(j, "debug_info", v.debug_info);
}

void to_json(Json& j, const ReflectedField& v) {
  j = Json{{"offset", v.offset}, {"type", v.type}, {"count", v.count}};
  if (!v.name.empty()) j["name"] = v.name;
}
void from_json(const Json& j, ReflectedField& v) {
  read_required(j, "offset", v.offset);
  read_required(j, "type", v.type);
  read_required(j, "count", v.count);
  read_optional(j, "name", v.name);
}

void to_json(Json& j, const ReflectedBinding& v) {
  j = Json{
      {"set", v.set},   {"binding", v.binding}, {"count", v.count},         {"type", v.type},
      {"name", v.name}, {"size_bytes", v.size}, {"read_only", v.read_only}, {"write_only", v.write_only}};
  if (!v.fields.empty()) j["fields"] = v.fields;
  if (v.element_stride != 0) {
    j["element_offset"] = v.element_offset;
    j["element_stride"] = v.element_stride;
    j["element_fields"] = v.element_fields;
  }
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
  read_optional(j, "fields", v.fields);
  read_optional(j, "element_offset", v.element_offset);
  read_optional(j, "element_stride", v.element_stride);
  read_optional(j, "element_fields", v.element_fields);
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
  if (v.instructions) j["instructions"] = true;
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
  read_optional(j, "instructions", v.instructions);
  read_optional(j, "options", v.options);
  read_optional(j, "batch", v.batch);
}

void to_json(Json& j, const Dependency& v) { j = Json{{"path", v.path}, {"hash", v.hash}}; }
void from_json(const Json& j, Dependency& v) {
  read_required(j, "path", v.path);
  read_required(j, "hash", v.hash);
}

void to_json(Json& j, const Tool& v) {
  j = Json{{"name", v.name}, {"path", v.path}, {"version", v.version}};
  if (!v.problem.empty()) j["problem"] = v.problem;
}
void from_json(const Json& j, Tool& v) {
  read_required(j, "name", v.name);
  read_optional(j, "path", v.path);
  read_optional(j, "version", v.version);
  read_optional(j, "problem", v.problem);
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
  if (v.cuda) j["cuda"] = *v.cuda;
  if (!v.entry_point.empty()) j["entry_point"] = v.entry_point;
  if (!v.why_compiler.empty()) j["why_compiler"] = v.why_compiler;
  if (v.nvrtc_refused) j["nvrtc_refused"] = true;
  if (!v.cacheable) j["cacheable"] = false;
  if (v.compile_ms > 0) j["compile_ms"] = v.compile_ms;
  if (!v.tools.empty()) j["tools"] = v.tools;
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
  if (j.contains("cuda")) v.cuda = j.at("cuda").get<CudaFacts>();
  read_optional(j, "entry_point", v.entry_point);
  read_optional(j, "why_compiler", v.why_compiler);
  read_optional(j, "nvrtc_refused", v.nvrtc_refused);
  read_optional(j, "cacheable", v.cacheable);
  read_optional(j, "compile_ms", v.compile_ms);
  read_optional(j, "tools", v.tools);
  read_optional(j, "disassembly", v.disassembly);
  read_optional(j, "batch", v.batch);
}

}  // namespace klab::compile
