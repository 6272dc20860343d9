// SPDX-License-Identifier: Apache-2.0
#include "compile/cuda/build.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "base/hash.h"
#include "compile/cubin/cubin.h"
#include "compile/cuda/disassemble.h"
#include "compile/cuda/includes.h"
#include "compile/cuda/toolkit.h"
#include "compile/hipcc/hipcc.h"
#include "compile/hipcc/hsaco_facts.h"
#include "compile/hipcc/rocm.h"
#include "compile/hiprtc/hiprtc.h"
#include "compile/nvcc/nvcc.h"
#include "compile/nvrtc/nvrtc.h"
#include "compile/ptx/assemble.h"
#include "compile/ptx/ptx.h"

namespace klab::compile {
namespace {

constexpr std::uint64_t kMaxSource = 1ull << 30;
constexpr char kDefaultEntry[] = "main";  // of shaders: no CUDA kernel was asked for

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string wanted_kernel(const Options& o) { return o.entry_point == kDefaultEntry ? "" : o.entry_point; }

std::string expression_of(const Options& o) {
  if (!o.kernel.empty()) return o.kernel;
  const std::string expression = name_expression(wanted_kernel(o));
  // Only templates need one: other kernels are there by themselves, and an overloaded name would be
  // ambiguous.
  return expression.find('<') != std::string::npos ? expression : "";
}

std::string without_template(std::string_view expression) {
  const std::size_t at = expression.find('<');
  return std::string(expression.substr(0, at));
}

std::string list_of(const CudaFacts& facts) {
  std::string list;
  std::size_t n = 0;
  for (const KernelFacts& k : facts.kernels) {
    if (++n > 12) return list + ", ...";
    list += (list.empty() ? "" : ", ") + (k.demangled.empty() ? k.name : k.demangled);
  }
  return list;
}

// The kernel that was asked for, under whatever name this build gave it.
Result<std::string> find_kernel(const CudaFacts& facts, const Options& o, const std::string& lowered,
                                const std::string& source) {
  if (facts.kernels.empty())
    return fail(ErrorCode::missing_symbol, fmt::format("{} has no kernel", source),
                "a kernel is a __global__ function; a template needs --kernel 'name<arguments>'");
  const std::string wanted = wanted_kernel(o);
  if (wanted.empty() && o.kernel.empty()) return facts.kernels.front().name;
  if (o.kernel.empty() && facts.kernel(wanted) != nullptr) return wanted;
  if (!lowered.empty() && facts.kernel(lowered) != nullptr) return lowered;
  const auto only = [&](const auto& fits) -> const KernelFacts* {
    const KernelFacts* found = nullptr;
    for (const KernelFacts& k : facts.kernels) {
      if (!fits(k)) continue;
      if (found != nullptr) return nullptr;
      found = &k;
    }
    return found;
  };
  // Internal linkage has a hash of the file in the mangled name, which a demangler drops.
  const std::string readable = demangle(wanted);
  const std::string expression = o.kernel.empty() ? name_expression(wanted) : o.kernel;
  const KernelFacts* found = nullptr;
  if (o.kernel.empty()) found = only([&](const KernelFacts& k) { return k.demangled == readable; });
  if (found == nullptr)
    found = only([&](const KernelFacts& k) { return name_expression(k.name) == expression; });
  if (found == nullptr)
    found = only([&](const KernelFacts& k) {
      return without_template(name_expression(k.name)) == without_template(expression);
    });
  if (found != nullptr) return found->name;
  return fail(ErrorCode::missing_symbol,
              fmt::format("{} has no kernel {}; it has {}", source, o.kernel.empty() ? readable : o.kernel,
                          list_of(facts)),
              "name the one that takes its place with --kernel");
}

// "void k<float>(int, float*)" -> "template __global__ void k<float>(int, float*)".
std::string instantiation_of(const Options& o) {
  const std::string readable = demangle(wanted_kernel(o));
  if (!o.kernel.empty() || readable.find('<') == std::string::npos ||
      readable.find("(anonymous namespace)") != std::string::npos || readable == wanted_kernel(o))
    return {};
  return "template __global__ " + readable;
}

void adopt(CudaOutcome&& outcome, Answer& answer) {
  answer.messages = std::move(outcome.messages);
  answer.log = std::move(outcome.log);
  answer.compiler = std::move(outcome.compiler);
  for (const std::string& option : outcome.notes)
    answer.log += fmt::format("klab: left out, NVRTC has no such option: {}\n", option);
}

// Facts of an HSACO, of a cubin or of PTX that stays PTX.
Result<CudaFacts> facts_of(const std::string& code, std::string_view log, const std::string& arch = {}) {
  if (looks_like_amdgpu_code(bytes_of(code))) {
    KLAB_TRY(const auto hsaco, unbundle(bytes_of(code), arch));
    return read_hsaco_facts(hsaco);
  }
  if (!looks_like_cubin(bytes_of(code))) return read_ptx(code);
  KLAB_TRY(CudaFacts facts, read_cubin(bytes_of(code)));
  read_spills(log, facts);
  return facts;
}

std::string headers_key(const Includes& includes);

Result<std::string> compile_with_nvcc(const std::string& text, const Request& request, const std::string& instantiate,
                                      Answer& answer) {
  CudaOutcome outcome = compile_nvcc(text, request.source, request.options, instantiate);
  answer.dependencies = outcome.dependencies;
  auto code = std::move(outcome.code);
  adopt(std::move(outcome), answer);
  return code;
}

Result<std::string> compile_source(const std::string& text, const Request& request, const Includes& includes,
                                   Answer& answer) {
  const Options& o = request.options;
  const std::string why_host = host_code_reason(text);
  std::string compiler = o.compiler;
  if (compiler != "auto" && compiler != "nvrtc" && compiler != "nvcc")
    return fail(ErrorCode::usage, fmt::format("unknown compiler \"{}\"", compiler), "auto, nvrtc or nvcc");
  if (o.optimisation != "performance" && o.optimisation != "none")
    return fail(ErrorCode::usage, fmt::format("CUDA's compilers have no optimisation \"{}\"", o.optimisation),
                "none or performance; others by --option, for example --option=--fmad=false");
  if (compiler == "auto" && !why_host.empty()) {
    answer.why_compiler = why_host;
    compiler = "nvcc";
    if (!find_cuda_program("nvcc"))
      return fail(ErrorCode::environment,
                  fmt::format("{} needs nvcc, which was not found: {}", request.source, why_host),
                  "install the CUDA toolkit, set KLAB_NVCC, or put the kernel into a file of its own");
  }
  std::string lowered;
  if (compiler != "nvcc") {
    CudaOutcome outcome = compile_nvrtc(text, request.source, o, expression_of(o), headers_key(includes));
    lowered = outcome.lowered_name;
    const bool other =
        compiler == "auto" && !outcome.code && !outcome.unsuitable.empty() && find_cuda_program("nvcc");
    const std::string why = outcome.unsuitable;
    auto code = std::move(outcome.code);
    if (!other) {
      if (!code && compiler == "auto" && !why.empty() && code.error().hint.empty())
        code.error().hint = "NVRTC compiles device code only, and nvcc, which takes the rest, was not found";
      adopt(std::move(outcome), answer);
      if (code) answer.entry_point = lowered;
      return code;
    }
    CudaOutcome second = compile_nvcc(text, request.source, o, "");
    if (!second.code && second.code.error().code == ErrorCode::compile_failed &&
        why.find("source file") == std::string::npos) {
      // Both refuse it: NVRTC's words are as good, and nvcc has no more to say.
      adopt(std::move(outcome), answer);
      return code;
    }
    answer.why_compiler = "NVRTC could not: " + why;
    answer.nvrtc_refused = second.code.has_value();
    answer.dependencies = second.dependencies;
    auto result = std::move(second.code);
    adopt(std::move(second), answer);
    return result;
  }
  return compile_with_nvcc(text, request, "", answer);
}

// hipcc first: the program that was captured was most likely built by it. hiprtc where it is asked for or all there is.
Result<std::string> choose_hip_compiler(const std::string& text, const Request& request, std::string& why) {
  const std::string& wanted = request.options.compiler;
  if (wanted != "auto" && wanted != "hipcc" && wanted != "hiprtc")
    return fail(ErrorCode::usage, fmt::format("unknown compiler of HIP \"{}\"", wanted), "auto, hipcc or hiprtc");
  if (wanted == "hiprtc" && !request.options.hipcc.empty())
    return fail(ErrorCode::usage, "--hipcc names a program that --compiler hiprtc does not use", "leave one out");
  if (wanted != "auto") return wanted;
  if (find_hipcc(request.options.hipcc) || !request.options.hipcc.empty() || !find_hiprtc()) return std::string("hipcc");
  const std::string why_host = host_code_reason(text);
  if (!why_host.empty())
    return fail(ErrorCode::environment, fmt::format("{} needs hipcc, which was not found: {}", request.source, why_host),
                "install hipcc, name it with --hipcc or KLAB_HIPCC, or put the kernel into a file of its own");
  why = "hipcc was not found";
  return std::string("hiprtc");
}

Result<std::string> compile_hip(const std::string& text, const Request& request, const std::string& instantiate,
                                Answer& answer) {
  const Options& o = request.options;
  KLAB_TRY(const std::string compiler, choose_hip_compiler(text, request, answer.why_compiler));
  // Other templates are instantiated by a declaration, once it is known that the file itself does not.
  const bool expression = o.kernel.find('<') != std::string::npos;
  CudaOutcome outcome = compiler == "hipcc" ? compile_hipcc(text, request.source, o, instantiate)
                                            : compile_hiprtc(text, request.source, o, instantiate, expression ? o.kernel : "");
  answer.dependencies = outcome.dependencies;
  auto code = std::move(outcome.code);
  if (code) answer.entry_point = outcome.lowered_name;
  adopt(std::move(outcome), answer);
  return code;
}

std::vector<std::string> trusted_folders(const Request& request) {
  if (request.language == "hip") return hip_system_folders(request.options.hipcc);
  const fs::path nvrtc = find_cuda_library("nvrtc").path;
  return cuda_include_folders(nvrtc.empty() ? find_cuda_program("nvcc").path : nvrtc);
}

Includes includes_of(const std::string& text, const Request& request) {
  std::vector<std::string> folders = request.options.include_folders;
  std::string all = text;
  for (const auto* list : {&request.options.extra, &request.options.project})
    for (std::size_t i = 0; i < list->size(); ++i) {
      const std::string& option = (*list)[i];
      const std::string next = i + 1 < list->size() ? (*list)[i + 1] : "";
      if (option.starts_with("-I")) folders.push_back(option.size() > 2 ? option.substr(2) : next);
      for (const std::string_view name :
           {"-include", "--pre-include", "-pre-include", "--include-path", "-isystem"}) {
        if (option != name && !option.starts_with(std::string(name) + "=")) continue;
        const std::string value = option == name ? next : option.substr(name.size() + 1);
        if (name == "--include-path" || name == "-isystem")
          folders.push_back(value);
        else
          all += fmt::format("\n#include \"{}\"\n", value);
      }
    }
  return scan_includes(all, request.source, folders, trusted_folders(request));
}

// Equal for equal headers, whatever the source itself says; empty when they are not all known, or none is
// included.
std::string headers_key(const Includes& includes) {
  if (!includes.complete || includes.names.empty()) return {};
  std::string all;
  for (const std::string& name : includes.names) all += name + "\n";
  for (const Dependency& d : includes.dependencies) all += d.path + " " + d.hash + "\n";
  return to_string(hash_text(all));
}

void add_dependencies(Includes includes, const Request& request, Answer& answer) {
  const std::vector<std::string> trusted = trusted_folders(request);
  answer.cacheable = includes.complete;
  std::vector<Dependency> merged = std::move(includes.dependencies);
  for (Dependency& d : answer.dependencies) {
    // What the toolkit's version stands for need not be read at each build.
    std::error_code ec;
    const fs::path real = fs::weakly_canonical(d.path, ec);
    const bool own = std::any_of(trusted.begin(), trusted.end(),
                                 [&](const std::string& t) { return real.string().starts_with(t + "/"); });
    if (own ||
        std::any_of(merged.begin(), merged.end(), [&](const Dependency& m) { return m.path == d.path; }))
      continue;
    merged.push_back(std::move(d));
  }
  answer.dependencies = std::move(merged);
}

Status compile(const Request& request, Answer& answer) {
  std::string text = request.source_text;
  if (text.empty()) {
    if (request.source.empty()) return fail(ErrorCode::usage, "the request names no source");
    KLAB_TRY(text, read_file(request.source, kMaxSource));
  }
  const bool hip = request.language == "hip" || request.language == "hsaco";
  if (!hip) KLAB_TRY_VOID(parse_arch(request.options.arch));
  std::string code, lowered;
  if (request.language == "hsaco") {
    answer.compiler = "given as it is";
    KLAB_TRY(const auto hsaco, unbundle(bytes_of(text), request.options.arch));
    code.assign(reinterpret_cast<const char*>(hsaco.data()), hsaco.size());
  } else if (request.language == "cubin") {
    answer.compiler = "given as it is";
    code = std::move(text);
  } else if (request.language == "ptx") {
    KLAB_TRY(const CudaFacts declared, read_ptx(text));
    while (!text.empty() && text.back() == '\0') text.pop_back();
    CudaOutcome outcome = assemble_ptx(text, request.source, request.options);
    answer.why_compiler = outcome.unsuitable;
    auto made = std::move(outcome.code);
    adopt(std::move(outcome), answer);
    if (!made) return fail(made.error());
    code = std::move(*made);
  } else {
    // Before the compiler reads them: a header that changes meanwhile then misses, rather than hits, the next
    // time.
    Includes includes = includes_of(text, request);
    auto made = hip ? compile_hip(text, request, "", answer) : compile_source(text, request, includes, answer);
    add_dependencies(std::move(includes), request, answer);
    if (!made) return fail(made.error());
    code = std::move(*made);
    lowered = answer.entry_point;
  }
  KLAB_TRY(CudaFacts facts, facts_of(code, answer.log));
  if (answer.compiler.starts_with("NVRTC ")) {
    // NVRTC says 13.0 of itself; the assembler inside has the whole version.
    if (const std::size_t v = facts.made_by.rfind(", V"); v != std::string::npos)
      answer.compiler = "NVRTC " + facts.made_by.substr(v + 3);
  }
  auto kernel = find_kernel(facts, request.options, lowered, request.source);
  if (!kernel && kernel.error().code == ErrorCode::missing_symbol &&
      ((request.language == "cuda" && answer.compiler.starts_with("nvcc")) || request.language == "hip")) {
    if (const std::string instantiate = instantiation_of(request.options); !instantiate.empty()) {
      // These build the instantiations that the file itself uses; this one was used elsewhere. What they say of an
      // attempt that fails is nothing that the user wrote.
      Answer attempt;
      auto made = hip ? compile_hip(text, request, instantiate, attempt)
                      : compile_with_nvcc(text, request, instantiate, attempt);
      if (made) {
        code = std::move(*made);
        answer.messages = std::move(attempt.messages), answer.log = std::move(attempt.log);
        KLAB_TRY(facts, facts_of(code, answer.log));
        kernel = find_kernel(facts, request.options, "", request.source);
      }
    }
  }
  answer.hash = to_string(hash_text(code));
  answer.cuda = std::move(facts);
  if (!kernel) return fail(kernel.error());
  answer.entry_point = std::move(*kernel);
  if (const KernelFacts* k = answer.cuda->kernel(answer.entry_point)) answer.stripped_hash = k->code_hash;
  if (!answer.cuda->undefined.empty())
    return fail(
        ErrorCode::missing_symbol,
        fmt::format("{} needs {}, which it does not define", request.source, answer.cuda->undefined.front()),
        "one file must hold all that the kernel calls");
  if (!request.output.empty()) {
    KLAB_TRY_VOID(write_file_atomic(request.output, code));
    answer.output = request.output;
  }
  return {};
}

}  // namespace

std::string host_code_reason(std::string_view text) {
  // Comments and strings are passed over; what is under #if counts, since nobody knows here.
  std::uint32_t line = 1;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') {
      ++line;
    } else if (text.substr(i, 2) == "//") {
      while (i + 1 < text.size() && text[i + 1] != '\n') ++i;
    } else if (text.substr(i, 2) == "/*") {
      for (i += 2; i + 1 < text.size() && text.substr(i, 2) != "*/"; ++i) line += text[i] == '\n';
      ++i;
    } else if (c == '"') {
      for (++i; i < text.size() && text[i] != '"' && text[i] != '\n'; ++i) i += text[i] == '\\';
      if (i < text.size() && text[i] == '\n') ++line;
    } else if (text.substr(i, 3) == "<<<") {
      return fmt::format("line {} launches a kernel (<<<), which is host code", line);
    } else if (text.substr(i, 5) == "main(" || text.substr(i, 6) == "main (") {
      const bool word =
          i > 0 && (std::isalnum(static_cast<unsigned char>(text[i - 1])) != 0 || text[i - 1] == '_');
      std::size_t before = i;
      while (before > 0 && (text[before - 1] == ' ' || text[before - 1] == '\n')) --before;
      if (!word && before < i && before >= 3 && text.substr(before - 3, 3) == "int")
        return fmt::format("line {} defines main, so the file is a whole program", line);
    }
  }
  return {};
}

Status serve_cuda(const Request& request, Answer& answer) {
  if (request.verb == "compile") {
    const auto begin = std::chrono::steady_clock::now();
    const Status done = compile(request, answer);
    answer.compile_ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    return done;
  }
  if (request.verb != "reflect" && request.verb != "disassemble" && request.verb != "ptx")
    return fail(ErrorCode::usage, fmt::format("unknown verb \"{}\"", request.verb),
                "compile, reflect, disassemble, ptx, tools or batch");
  std::string code = request.source_text;
  if (code.empty()) {
    KLAB_TRY(code, read_file(request.source, kMaxSource));
  }
  answer.hash = to_string(hash_text(code));
  KLAB_TRY(answer.cuda, facts_of(code, "", request.options.arch));
  if (answer.cuda->format == "hsaco") {
    if (request.verb != "reflect")
      return fail(ErrorCode::unsupported, "Klab does not disassemble AMD GPU code", "llvm-objdump -d shows it");
    for (const KernelFacts& k : answer.cuda->kernels)
      if (k.name == request.options.entry_point) answer.entry_point = k.name, answer.stripped_hash = k.code_hash;
    return {};
  }
  if (answer.cuda->format != "cubin") {
    if (request.verb != "reflect") answer.disassembly = std::move(code);
    return {};
  }
  if (request.verb == "ptx") {
    KLAB_TRY(answer.disassembly, embedded_ptx(bytes_of(code)));
    return {};
  }
  if (request.verb == "disassemble") {
    KLAB_TRY(Disassembly text, disassemble_cubin(code));
    answer.disassembly = std::move(text.text);
    answer.cuda->disassembler = text.tool;
    return {};
  }
  for (const KernelFacts& k : answer.cuda->kernels)
    if (k.name == request.options.entry_point)
      answer.entry_point = k.name, answer.stripped_hash = k.code_hash;
  if (request.instructions) add_instruction_counts(code, *answer.cuda);
  return {};
}

std::vector<Tool> cuda_tools() {
  std::vector<Tool> tools{nvrtc_tool()};
  for (const char* name : {"nvcc", "ptxas", "nvdisasm", "cuobjdump"}) {
    const FoundFile found = find_cuda_program(name);
    Tool tool{name, found.path.string(), found ? tool_version(found.path) : "", ""};
    if (!found)
      tool.problem = fmt::format("not found in CUDA_HOME, PATH, /usr/local/cuda or Python packages");
    else if (tool.version.empty())
      tool.problem = "it does not say its version; does it run?";
    tools.push_back(std::move(tool));
  }
  const FoundFile hipcc = find_hipcc();
  Tool tool{"hipcc", hipcc.path.string(), hipcc ? hipcc_version(hipcc.path) : "", ""};
  if (!hipcc) tool.problem = "not found in ROCM_PATH, HIP_PATH, PATH or /opt/rocm";
  tools.push_back(std::move(tool));
  tools.push_back(hiprtc_tool());
  tools.push_back(comgr_tool());
  return tools;
}

}  // namespace klab::compile
