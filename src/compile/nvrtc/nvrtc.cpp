// SPDX-License-Identifier: Apache-2.0
#include "compile/nvrtc/nvrtc.h"

#include <dlfcn.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/hash.h"
#include "compile/cuda/diagnostics.h"
#include "compile/cuda/toolkit.h"

namespace klab::compile {
namespace {

// The few entry points that are used, declared here: NVRTC's C interface is the same since CUDA 11.2, and
// Klab builds without its header.
using Program = void*;
struct Api {
  int (*version)(int*, int*);
  int (*archs_count)(int*);
  int (*archs)(int*);
  int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*);
  int (*destroy)(Program*);
  int (*compile)(Program, int, const char* const*);
  int (*cubin_size)(Program, std::size_t*);
  int (*cubin)(Program, char*);
  int (*ptx_size)(Program, std::size_t*);
  int (*ptx)(Program, char*);
  int (*log_size)(Program, std::size_t*);
  int (*log)(Program, char*);
  int (*add_name)(Program, const char*);
  int (*lowered)(Program, const char*, const char**);
  const char* (*error_string)(int);
};

struct Library {
  Api api{};
  std::string path, how, version, problem;
  std::vector<int> archs;
  std::vector<std::string> include_folders;
};

bool bind(void* handle, Api& api, std::string& missing) {
  const auto get = [&](const char* name, auto& target) {
    void* address = ::dlsym(handle, name);
    if (address == nullptr && missing.empty()) missing = name;
    target = reinterpret_cast<std::remove_reference_t<decltype(target)>>(address);
  };
  get("nvrtcVersion", api.version);
  get("nvrtcGetNumSupportedArchs", api.archs_count);
  get("nvrtcGetSupportedArchs", api.archs);
  get("nvrtcCreateProgram", api.create);
  get("nvrtcDestroyProgram", api.destroy);
  get("nvrtcCompileProgram", api.compile);
  get("nvrtcGetCUBINSize", api.cubin_size);
  get("nvrtcGetCUBIN", api.cubin);
  get("nvrtcGetPTXSize", api.ptx_size);
  get("nvrtcGetPTX", api.ptx);
  get("nvrtcGetProgramLogSize", api.log_size);
  get("nvrtcGetProgramLog", api.log);
  get("nvrtcAddNameExpression", api.add_name);
  get("nvrtcGetLoweredName", api.lowered);
  get("nvrtcGetErrorString", api.error_string);
  return missing.empty();
}

Library load() {
  Library library;
  std::vector<std::pair<std::string, std::string>> tries;
  const FoundFile found = find_cuda_library("nvrtc");
  const char* own = std::getenv("KLAB_NVRTC");
  if (found) tries.emplace_back(found.path.string(), found.how);
  if (own != nullptr && *own != '\0') {
    if (!found) {
      library.problem = fmt::format("KLAB_NVRTC names {}, which is not there", own);
      return library;
    }
  } else {
    for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"})
      tries.emplace_back(name, "ld.so");
  }
  for (const auto& [path, how] : tries) {
    void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      const char* why = ::dlerror();
      if (library.problem.empty()) library.problem = why != nullptr ? why : path;
      continue;
    }
    std::string missing;
    if (!bind(handle, library.api, missing)) {
      library.problem = fmt::format("{} has no {}: NVRTC older than CUDA 11.2", path, missing);
      continue;
    }
    library.problem.clear();
    Dl_info info{};
    library.path =
        ::dladdr(reinterpret_cast<void*>(library.api.version), &info) != 0 && info.dli_fname != nullptr
            ? info.dli_fname
            : path;
    library.how = how;
    int major = 0, minor = 0, count = 0;
    (void)library.api.version(&major, &minor);
    library.version = fmt::format("{}.{}", major, minor);
    if (library.api.archs_count(&count) == 0 && count > 0 && count < 1000) {
      library.archs.resize(static_cast<std::size_t>(count));
      if (library.api.archs(library.archs.data()) != 0) library.archs.clear();
    }
    library.include_folders = cuda_include_folders(library.path);
    return library;
  }
  if (found || own != nullptr) return library;
  library.problem = "no libnvrtc.so was found";
  return library;
}

const Library& library() {
  static const Library one = load();
  return one;
}

fs::path& precompiled_folder() {
  static fs::path folder;
  return folder;
}

// Since 12.8, and of use from the second build of a file on: CUB's headers take 1.6 s of 1.9 s.
void add_precompiled(std::vector<std::string>& argv, const std::string& headers_key) {
  int major = 0, minor = 0;
  (void)library().api.version(&major, &minor);
  if (precompiled_folder().empty() || headers_key.empty() || major * 100 + minor < 1208) return;
  std::string all = headers_key;
  for (const std::string& a : argv) all += "\n" + a;
  const fs::path folder = precompiled_folder() / to_string(hash_text(all));
  if (!make_folders(folder)) return;
  argv.emplace_back("--pch");
  argv.push_back("--pch-dir=" + folder.string());
  argv.emplace_back("--pch-messages=false");
}

constexpr char kInstallHint[] =
    "install the CUDA toolkit (or the Python package nvidia-cuda-nvrtc), or set KLAB_NVRTC to libnvrtc.so";

/// Ends the program.
class Compilation {
 public:
  Compilation(const Api& api, const std::string& text, const std::string& name) : api_(api) {
    failed_ = api.create(&program_, text.c_str(), name.c_str(), 0, nullptr, nullptr);
  }
  ~Compilation() {
    if (program_ != nullptr) (void)api_.destroy(&program_);
  }
  Compilation(const Compilation&) = delete;
  Compilation& operator=(const Compilation&) = delete;
  int failed() const { return failed_; }
  int name(const std::string& expression) { return api_.add_name(program_, expression.c_str()); }
  int compile(const std::vector<std::string>& options) {
    std::vector<const char*> argv;
    for (const std::string& o : options) argv.push_back(o.c_str());
    return api_.compile(program_, static_cast<int>(argv.size()), argv.data());
  }
  std::string lowered(const std::string& expression) const {
    const char* text = nullptr;
    return api_.lowered(program_, expression.c_str(), &text) == 0 && text != nullptr ? text : "";
  }
  // Log and PTX end with a zero that is no part of them.
  std::string log() const { return taken(api_.log_size, api_.log, true); }
  std::string ptx() const { return taken(api_.ptx_size, api_.ptx, true); }
  std::string cubin() const { return taken(api_.cubin_size, api_.cubin, false); }

 private:
  template <class Size, class Get>
  std::string taken(Size size, Get get, bool text) const {
    std::size_t n = 0;
    if (size(program_, &n) != 0 || n == 0 || n > (1ull << 30)) return {};
    std::string out(n, '\0');
    if (get(program_, out.data()) != 0) return {};
    while (text && !out.empty() && out.back() == '\0') out.pop_back();
    return out;
  }
  const Api& api_;
  Program program_ = nullptr;
  int failed_ = 0;
};

// Options of nvcc builds that NVRTC has too; others of a project's build are left out here.
bool nvrtc_knows(const std::string& option) {
  static constexpr std::string_view kKnown[] = {"--use_fast_math",
                                                "-use_fast_math",
                                                "--ftz",
                                                "-ftz",
                                                "--prec-sqrt",
                                                "-prec-sqrt",
                                                "--prec-div",
                                                "-prec-div",
                                                "--fmad",
                                                "-fmad",
                                                "--extra-device-vectorization",
                                                "-extra-device-vectorization",
                                                "--maxrregcount",
                                                "-maxrregcount",
                                                "--diag-suppress",
                                                "-diag-suppress",
                                                "--disable-warnings",
                                                "-w",
                                                "--restrict",
                                                "-restrict",
                                                "--std",
                                                "-std"};
  const std::string name = option.substr(0, option.find('='));
  return std::find(std::begin(kKnown), std::end(kKnown), name) != std::end(kKnown);
}

std::vector<std::string> argument_vector(const Options& o, const std::string& name, const std::string& arch,
                                         CudaOutcome& outcome) {
  std::vector<std::string> argv{"--gpu-architecture=" + arch};
  if (!o.standard.empty()) argv.push_back("--std=" + o.standard);
  if (o.line_info) argv.emplace_back("-lineinfo");
  if (o.fast_math) argv.emplace_back("--use_fast_math");
  if (o.max_registers != 0) argv.push_back(fmt::format("--maxrregcount={}", o.max_registers));
  if (o.optimisation == "none") argv.insert(argv.end(), {"--dopt=off", "--ptxas-options=-O0"});
  argv.emplace_back("--ptxas-options=-v");
  for (const std::string& d : o.defines) argv.push_back("-D" + d);
  for (const std::string& folder : o.include_folders) argv.push_back("-I" + (folder.empty() ? "." : folder));
  const fs::path own = fs::path(name).parent_path();
  argv.push_back("-I" + (own.empty() ? "." : own.string()));
  for (const std::string& folder : library().include_folders) argv.push_back("-I" + folder);
  for (const std::string& option : o.project) {
    if (nvrtc_knows(option))
      argv.push_back(option);
    else if (std::find(outcome.notes.begin(), outcome.notes.end(), option) == outcome.notes.end())
      outcome.notes.push_back(option);
  }
  argv.insert(argv.end(), o.extra.begin(), o.extra.end());
  return argv;
}

// Errors that come from what NVRTC lacks rather than from the user: headers of the host, and names that they
// (or nvcc, which includes cuda_runtime.h first) would bring.
std::string unsuitable_reason(const std::vector<Message>& messages) {
  for (const Message& m : messages) {
    if (m.severity != Severity::error) continue;
    for (const std::string_view mark :
         {"cannot open source file", "could not open source file", " is undefined",
          "is not a class or namespace", "has no member", "not declared", "host function",
          "is not a type name", "no instance of", "unknown type", "name followed by \"::\"",
          "#error directive", "_Float128", "must be declared", "should not be", "cannot be included",
          "is not supported"})
      if (m.text.find(mark) != std::string::npos)
        return fmt::format("{}{}{}", m.file, m.line != 0 ? fmt::format(":{}: ", m.line) : ": ",
                           m.text.substr(0, m.text.find('\n')));
  }
  return {};
}

}  // namespace

void keep_precompiled_headers(const fs::path& folder) { precompiled_folder() = folder; }

CudaOutcome compile_nvrtc(const std::string& text, const std::string& name, const Options& options,
                          const std::string& expression, const std::string& headers_key) {
  CudaOutcome outcome;
  const Library& lib = library();
  if (lib.path.empty()) {
    outcome.code = fail(ErrorCode::environment, "NVRTC cannot be used: " + lib.problem, kInstallHint);
    outcome.unsuitable = "NVRTC cannot be used: " + lib.problem;
    return outcome;
  }
  outcome.compiler = "NVRTC " + lib.version;
  const auto arch = parse_arch(options.arch);
  if (!arch) {
    outcome.code = fail(arch.error());
    return outcome;
  }
  const int number = static_cast<int>(arch->number);
  if (!lib.archs.empty() && std::find(lib.archs.begin(), lib.archs.end(), number) == lib.archs.end()) {
    std::string list;
    for (const int a : lib.archs) list += fmt::format("{}sm_{}", list.empty() ? "" : ", ", a);
    outcome.unsuitable = fmt::format("NVRTC {} does not build for {}", lib.version, options.arch);
    outcome.code = fail(ErrorCode::environment, fmt::format("{}; it builds for {}", outcome.unsuitable, list),
                        "a newer or older CUDA toolkit, named by KLAB_NVRTC");
    return outcome;
  }
  if (text.find('\0') != std::string::npos) {
    outcome.code =
        fail(ErrorCode::compile_failed, fmt::format("{} holds a zero byte", name), "is it a source file?");
    return outcome;
  }
  const std::string shown = name.empty() ? "source.cu" : name;
  Compilation run(lib.api, text, shown);
  if (run.failed() != 0) {
    outcome.code =
        fail(ErrorCode::compile_failed,
             fmt::format("nvrtcCreateProgram: {}", lib.api.error_string(run.failed())), "", run.failed());
    return outcome;
  }
  if (!expression.empty()) (void)run.name(expression);
  std::vector<std::string> argv = argument_vector(options, name, options.arch, outcome);
  add_precompiled(argv, headers_key);
  const int failed = run.compile(argv);
  outcome.log = run.log();
  std::string ptx;
  if (failed != 0 && names_ptx_line(outcome.log)) {
    // Once more as PTX, which alone knows the source line of its own line.
    const std::string virtual_arch = "compute_" + options.arch.substr(options.arch.find('_') + 1);
    Compilation again(lib.api, text, shown);
    if (again.failed() == 0) {
      if (!expression.empty()) (void)again.name(expression);
      if (again.compile(argument_vector(options, name, virtual_arch, outcome)) == 0) ptx = again.ptx();
    }
  }
  outcome.messages = parse_cuda_messages(outcome.log, [&](std::uint32_t line) -> std::optional<SourceLine> {
    return ptx.empty() ? std::nullopt : source_of_ptx_line(ptx, line);
  });
  if (failed != 0) {
    // An expression that names nothing here is reported at a line of a file that nobody wrote. Without it the source
    // may compile, and the caller then says which kernels there are.
    const auto of_expression = [](const Message& m) { return m.file == "__nv_name_map"; };
    const bool others = std::any_of(outcome.messages.begin(), outcome.messages.end(), [&](const Message& m) {
      return m.severity == Severity::error && !of_expression(m);
    });
    const auto count = std::erase_if(outcome.messages, of_expression);
    if (count > 0 && !others) return compile_nvrtc(text, name, options, "", headers_key);
    outcome.unsuitable = unsuitable_reason(outcome.messages);
    Error error = first_error(outcome.messages, shown, outcome.log);
    error.vendor = failed;
    if (outcome.messages.empty() && outcome.log.empty())
      error.what = fmt::format("{}: nvrtcCompileProgram: {}", shown, lib.api.error_string(failed));
    outcome.code = fail(std::move(error));
    return outcome;
  }
  if (!expression.empty()) outcome.lowered_name = run.lowered(expression);
  std::string code = run.cubin();
  if (code.empty())
    outcome.code =
        fail(ErrorCode::compile_failed, fmt::format("NVRTC gave no cubin of {} for {}", shown, options.arch),
             "--arch sm_NN names a real architecture");
  else
    outcome.code = std::move(code);
  return outcome;
}

Tool nvrtc_tool() {
  const Library& lib = library();
  Tool tool{"NVRTC", lib.path, lib.version, ""};
  if (lib.path.empty()) tool.problem = lib.problem + "; " + kInstallHint;
  return tool;
}

}  // namespace klab::compile
