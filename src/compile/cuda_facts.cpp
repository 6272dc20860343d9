// SPDX-License-Identifier: Apache-2.0
#include "compile/cuda_facts.h"

#include <cxxabi.h>

#include <charconv>
#include <cstdlib>
#include <memory>

#include <fmt/format.h>

namespace klab::compile {
namespace {

template <class T>
void put(Json& j, const char* name, const std::optional<T>& value) {
  if (value) j[name] = *value;
}
template <class T>
void get(const Json& j, const char* name, std::optional<T>& value) {
  if (const auto it = j.find(name); it == j.end() || it->is_null()) return;
  T inner{};
  read_optional(j, name, inner);
  value = std::move(inner);
}

// The matching opener of the bracket that ends at `at`, or npos.
std::size_t opener(std::string_view text, std::size_t at) {
  int depth = 0;
  for (std::size_t i = at + 1; i-- > 0;) {
    const char c = text[i];
    if (c == ')' || c == '>' || c == ']' || c == '}') ++depth;
    if ((c == '(' || c == '<' || c == '[' || c == '{') && --depth == 0) return i;
  }
  return std::string_view::npos;
}

}  // namespace

std::uint64_t InstructionMix::matrix_total() const {
  std::uint64_t sum = 0;
  for (const auto& [name, count] : matrix) sum += count;
  return sum;
}

const KernelFacts* CudaFacts::kernel(std::string_view name) const {
  for (const KernelFacts& k : kernels)
    if (k.name == name) return &k;
  return nullptr;
}

void to_json(Json& j, const KernelParameter& v) { j = Json{{"offset", v.offset}, {"size", v.size}}; }
void from_json(const Json& j, KernelParameter& v) {
  read_required(j, "offset", v.offset);
  read_required(j, "size", v.size);
}

void to_json(Json& j, const InstructionMix& v) {
  j = Json{{"total", v.total},
           {"opcodes", v.opcodes},
           {"matrix", v.matrix},
           {"groups", v.groups},
           {"matrix_total", v.matrix_total()}};
}
void from_json(const Json& j, InstructionMix& v) {
  read_optional(j, "total", v.total);
  read_optional(j, "opcodes", v.opcodes);
  read_optional(j, "matrix", v.matrix);
  read_optional(j, "groups", v.groups);
}

void to_json(Json& j, const KernelFacts& v) {
  j = Json{{"name", v.name},
           {"demangled", v.demangled},
           {"local_bytes", v.local_bytes},
           {"shared_bytes", v.shared_bytes},
           {"constant_bytes", v.constant_bytes},
           {"code_bytes", v.code_bytes},
           {"code_hash", v.code_hash},
           {"barriers", v.barriers},
           {"parameter_bytes", v.parameter_bytes},
           {"max_block", v.max_block},
           {"required_block", v.required_block},
           {"cluster", v.cluster},
           {"cooperative", v.cooperative}};
  put(j, "registers", v.registers);
  put(j, "scalar_registers", v.scalar_registers);
  put(j, "accumulation_registers", v.accumulation_registers);
  put(j, "vector_spills", v.vector_spills);
  put(j, "scalar_spills", v.scalar_spills);
  if (v.wavefront_size != 0) j["wavefront_size"] = v.wavefront_size;
  put(j, "max_registers", v.max_registers);
  put(j, "min_stack_bytes", v.min_stack_bytes);
  put(j, "spill_store_bytes", v.spill_store_bytes);
  put(j, "spill_load_bytes", v.spill_load_bytes);
  put(j, "parameters", v.parameters);
  put(j, "instructions", v.instructions);
}
void from_json(const Json& j, KernelFacts& v) {
  read_required(j, "name", v.name);
  read_optional(j, "demangled", v.demangled);
  read_optional(j, "local_bytes", v.local_bytes);
  read_optional(j, "shared_bytes", v.shared_bytes);
  read_optional(j, "constant_bytes", v.constant_bytes);
  read_optional(j, "code_bytes", v.code_bytes);
  read_optional(j, "code_hash", v.code_hash);
  read_optional(j, "barriers", v.barriers);
  read_optional(j, "parameter_bytes", v.parameter_bytes);
  read_optional(j, "max_block", v.max_block);
  read_optional(j, "required_block", v.required_block);
  read_optional(j, "cluster", v.cluster);
  read_optional(j, "cooperative", v.cooperative);
  get(j, "registers", v.registers);
  get(j, "scalar_registers", v.scalar_registers);
  get(j, "accumulation_registers", v.accumulation_registers);
  get(j, "vector_spills", v.vector_spills);
  get(j, "scalar_spills", v.scalar_spills);
  read_optional(j, "wavefront_size", v.wavefront_size);
  get(j, "max_registers", v.max_registers);
  get(j, "min_stack_bytes", v.min_stack_bytes);
  get(j, "spill_store_bytes", v.spill_store_bytes);
  get(j, "spill_load_bytes", v.spill_load_bytes);
  get(j, "parameters", v.parameters);
  get(j, "instructions", v.instructions);
}

void to_json(Json& j, const ModuleVariable& v) {
  j = Json{{"name", v.name}, {"space", v.space}, {"size_bytes", v.size}, {"initialised", v.initialised}};
}
void from_json(const Json& j, ModuleVariable& v) {
  read_required(j, "name", v.name);
  read_optional(j, "space", v.space);
  read_optional(j, "size_bytes", v.size);
  read_optional(j, "initialised", v.initialised);
}

void to_json(Json& j, const CudaFacts& v) {
  j = Json{{"format", v.format},       {"arch", v.arch},
           {"made_by", v.made_by},     {"made_with", v.made_with},
           {"kernels", v.kernels},     {"variables", v.variables},
           {"undefined", v.undefined}, {"disassembler", v.disassembler}};
  if (!v.ptx_version.empty()) j["ptx_version"] = v.ptx_version;
  if (!v.disassembler_problem.empty()) j["disassembler_problem"] = v.disassembler_problem;
}
void from_json(const Json& j, CudaFacts& v) {
  read_optional(j, "format", v.format);
  read_optional(j, "arch", v.arch);
  read_optional(j, "made_by", v.made_by);
  read_optional(j, "made_with", v.made_with);
  read_optional(j, "ptx_version", v.ptx_version);
  read_optional(j, "kernels", v.kernels);
  read_optional(j, "variables", v.variables);
  read_optional(j, "undefined", v.undefined);
  read_optional(j, "disassembler", v.disassembler);
  read_optional(j, "disassembler_problem", v.disassembler_problem);
}

std::string demangle(const std::string& name) {
  if (!name.starts_with("_Z") || name.size() > 100'000) return name;
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 && text ? std::string(text.get()) : name;
}

std::string name_expression(const std::string& mangled) {
  std::string text = demangle(mangled);
  if (text == mangled) return text;
  // "void ns::k<(ns::Mode)1>(int) [clone .x]": the parameter list ends at the last parenthesis.
  std::size_t end = text.rfind(')');
  if (end == std::string::npos) return text;
  const std::size_t open = opener(text, end);
  if (open != std::string::npos) text.resize(open);
  // The return type, which templates alone have, ends at the last space outside of brackets.
  int depth = 0;
  for (std::size_t i = text.size(); i-- > 0;) {
    const char c = text[i];
    if (c == ')' || c == '>' || c == ']' || c == '}') ++depth;
    if (c == '(' || c == '<' || c == '[' || c == '{') --depth;
    if (c == ' ' && depth == 0) {
      text.erase(0, i + 1);
      break;
    }
  }
  static constexpr std::string_view kAnonymous = "(anonymous namespace)::";
  for (std::size_t at; (at = text.find(kAnonymous)) != std::string::npos;) text.erase(at, kAnonymous.size());
  return text;
}

Result<Arch> parse_arch(std::string_view text) {
  Arch arch;
  std::string_view rest = text;
  for (const std::string_view prefix : {"sm_", "compute_"})
    if (rest.starts_with(prefix)) rest.remove_prefix(prefix.size());
  const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), arch.number);
  rest.remove_prefix(static_cast<std::size_t>(parsed.ptr - rest.data()));
  if (parsed.ec != std::errc() || arch.number < 20 || arch.number > 999 ||
      (!rest.empty() && rest != "a" && rest != "f"))
    return fail(ErrorCode::usage, fmt::format("\"{}\" is no GPU architecture", text),
                "for example --arch sm_90a");
  arch.suffix = rest;
  return arch;
}

std::string describe_layout(const std::vector<KernelParameter>& parameters) {
  if (parameters.empty()) return "no parameters";
  const KernelParameter& last = parameters.back();
  std::string text = fmt::format("{} parameter{}, {} bytes:", parameters.size(),
                                 parameters.size() == 1 ? "" : "s", std::uint64_t{last.offset} + last.size);
  for (const KernelParameter& p : parameters)
    text += fmt::format("{} [{}] {} B", &p == &parameters.front() ? "" : ",", p.offset, p.size);
  return text;
}

}  // namespace klab::compile
