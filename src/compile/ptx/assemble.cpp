// SPDX-License-Identifier: Apache-2.0
#include "compile/ptx/assemble.h"

#include <dlfcn.h>

#include <fmt/format.h>

#include "base/subprocess.h"
#include "compile/cuda/diagnostics.h"
#include "compile/cuda/scratch.h"
#include "compile/cuda/toolkit.h"
#include "compile/nvcc/nvcc.h"

namespace klab::compile {
namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; !from.empty() && (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

// Options that the assembler has too.
std::vector<std::string> assembler_options(const Options& o) {
  std::vector<std::string> argv;
  if (o.max_registers != 0) argv.push_back(fmt::format("-maxrregcount={}", o.max_registers));
  if (o.optimisation == "none") argv.emplace_back("-O0");
  return argv;
}

CudaOutcome by_ptxas(const fs::path& ptxas, const std::string& text, const std::string& name,
                     const Options& options) {
  CudaOutcome outcome;
  outcome.compiler = fmt::format("ptxas {}", tool_version(ptxas));
  Scratch scratch;
  if (!scratch.ok()) {
    outcome.code = fail(scratch.error());
    return outcome;
  }
  const fs::path input = scratch.path() / "source.ptx", cubin = scratch.path() / "code.cubin";
  if (auto s = write_file_atomic(input, text, 0600, false); !s) {
    outcome.code = fail(s.error());
    return outcome;
  }
  SpawnOptions spawn;
  spawn.argv = {ptxas.string(), "-arch=" + options.arch, "-v", "-o", cubin.string()};
  if (options.line_info && text.find(".loc") != std::string::npos) spawn.argv.emplace_back("-lineinfo");
  for (std::string& o : assembler_options(options)) spawn.argv.push_back(std::move(o));
  spawn.argv.insert(spawn.argv.end(), options.extra.begin(), options.extra.end());
  spawn.argv.push_back(input.string());
  spawn.die_with_parent = true;
  auto finished = run_program(std::move(spawn), {}, std::chrono::minutes(9));
  if (!finished) {
    outcome.code =
        fail(ErrorCode::environment, "ptxas cannot be run: " + finished.error().what, finished.error().hint);
    return outcome;
  }
  outcome.log = replaced(finished->out + finished->err, input.string(), name);
  outcome.messages = parse_cuda_messages(outcome.log);
  if (finished->timed_out)
    outcome.code =
        fail(ErrorCode::compile_failed, fmt::format("ptxas did not finish {} within 9 minutes", name));
  else if (!finished->status.ok())
    outcome.code = fail(first_error(outcome.messages, name, outcome.log));
  else
    outcome.code = read_file(cubin, 1ull << 30);
  return outcome;
}

/// nvJitLink's C interface (unversioned names, CUDA 12.4 and later).
struct JitLink {
  void* library = nullptr;
  std::string version;
  int (*create)(void**, std::uint32_t, const char**) = nullptr;
  int (*destroy)(void**) = nullptr;
  int (*add)(void*, int, const void*, std::size_t, const char*) = nullptr;
  int (*complete)(void*) = nullptr;
  int (*cubin_size)(void*, std::size_t*) = nullptr;
  int (*cubin)(void*, void*) = nullptr;
  int (*error_size)(void*, std::size_t*) = nullptr;
  int (*error_log)(void*, char*) = nullptr;
  int (*info_size)(void*, std::size_t*) = nullptr;
  int (*info_log)(void*, char*) = nullptr;
};
constexpr int kInputPtx = 2;  // NVJITLINK_INPUT_PTX

const JitLink* jit_link() {
  static const JitLink one = [] {
    JitLink j;
    const FoundFile found = find_cuda_library("nvJitLink");
    if (!found) return j;
    void* library = ::dlopen(found.path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return j;
    bool all = true;
    const auto get = [&](const char* name, auto& target) {
      void* address = ::dlsym(library, name);
      all = all && address != nullptr;
      target = reinterpret_cast<std::remove_reference_t<decltype(target)>>(address);
    };
    get("nvJitLinkCreate", j.create);
    get("nvJitLinkDestroy", j.destroy);
    get("nvJitLinkAddData", j.add);
    get("nvJitLinkComplete", j.complete);
    get("nvJitLinkGetLinkedCubinSize", j.cubin_size);
    get("nvJitLinkGetLinkedCubin", j.cubin);
    get("nvJitLinkGetErrorLogSize", j.error_size);
    get("nvJitLinkGetErrorLog", j.error_log);
    get("nvJitLinkGetInfoLogSize", j.info_size);
    get("nvJitLinkGetInfoLog", j.info_log);
    int (*version)(unsigned*, unsigned*) = nullptr;
    get("nvJitLinkVersion", version);
    if (!all) return j;
    unsigned major = 0, minor = 0;
    (void)version(&major, &minor);
    j.version = fmt::format("{}.{}", major, minor);
    j.library = library;
    return j;
  }();
  return one.library != nullptr ? &one : nullptr;
}

CudaOutcome by_jit_link(const JitLink& j, const std::string& text, const std::string& name,
                        const Options& options) {
  CudaOutcome outcome;
  outcome.compiler = "nvJitLink " + j.version;
  std::vector<std::string> argv{"-arch=" + options.arch, "-verbose"};
  if (options.line_info && text.find(".loc") != std::string::npos) argv.emplace_back("-lineinfo");
  if (options.max_registers != 0) argv.push_back(fmt::format("-maxrregcount={}", options.max_registers));
  if (options.optimisation == "none") argv.emplace_back("-O0");
  argv.insert(argv.end(), options.extra.begin(), options.extra.end());
  std::vector<const char*> pointers;
  for (const std::string& a : argv) pointers.push_back(a.c_str());
  void* handle = nullptr;
  int failed = j.create(&handle, static_cast<std::uint32_t>(pointers.size()), pointers.data());
  if (failed != 0 || handle == nullptr) {
    outcome.code = fail(ErrorCode::compile_failed, fmt::format("nvJitLinkCreate failed with {}", failed),
                        "check --arch and --option", failed);
    return outcome;
  }
  const auto text_of = [&](auto size, auto get) {
    std::size_t n = 0;
    std::string out;
    if (size(handle, &n) == 0 && n > 0 && n < (1u << 28)) {
      out.resize(n);
      if (get(handle, out.data()) != 0) out.clear();
    }
    while (!out.empty() && out.back() == '\0') out.pop_back();
    return out;
  };
  failed = j.add(handle, kInputPtx, text.data(), text.size(), name.c_str());
  if (failed == 0) failed = j.complete(handle);
  outcome.log = text_of(j.info_size, j.info_log) + text_of(j.error_size, j.error_log);
  outcome.messages = parse_cuda_messages(outcome.log);
  std::size_t n = 0;
  if (failed == 0 && j.cubin_size(handle, &n) == 0 && n > 0 && n < (1ull << 30)) {
    std::string code(n, '\0');
    if (j.cubin(handle, code.data()) == 0) outcome.code = std::move(code);
  }
  for (Message& m : outcome.messages)
    if (m.line != 0) m.file = name;  // "application ptx input"
  if (!outcome.code) outcome.code = fail(first_error(outcome.messages, name, outcome.log));
  (void)j.destroy(&handle);
  return outcome;
}

}  // namespace

CudaOutcome assemble_ptx(const std::string& text, const std::string& name, const Options& options) {
  if (const FoundFile ptxas = find_cuda_program("ptxas")) return by_ptxas(ptxas.path, text, name, options);
  if (const JitLink* j = jit_link()) return by_jit_link(*j, text, name, options);
  CudaOutcome outcome;
  outcome.code = text;
  outcome.compiler = "the driver's own compiler";
  outcome.unsuitable = "neither ptxas nor nvJitLink was found: the driver compiles the PTX when it is loaded";
  return outcome;
}

}  // namespace klab::compile
