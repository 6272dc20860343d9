// SPDX-License-Identifier: Apache-2.0
#include "compile/hiprtc/hiprtc.h"

#include <dlfcn.h>

#include <cstdlib>
#include <optional>

#include <fmt/format.h>

#include "compile/cuda/diagnostics.h"
#include "compile/cuda/make_rule.h"
#include "compile/cuda/scratch.h"
#include "compile/hipcc/hsaco_facts.h"
#include "compile/hipcc/options.h"
#include "compile/hipcc/rocm.h"

namespace klab::compile {
namespace {

// Declared here: the C interface is the same from ROCm 4 to 7, and Klab builds without its header.
using Program = void*;
struct Api {
  int (*version)(int*, int*);
  int (*create)(Program*, const char*, const char*, int, const char**, const char**);
  int (*destroy)(Program*);
  int (*compile)(Program, int, const char**);
  int (*code_size)(Program, std::size_t*);
  int (*code)(Program, char*);
  int (*log_size)(Program, std::size_t*);
  int (*log)(Program, char*);
  int (*add_name)(Program, const char*);
  int (*lowered)(Program, const char*, const char**);
  const char* (*error_string)(int);
};

struct Library {
  Api api{};
  std::string path, version, problem;
};

constexpr char kInstallHint[] = "install it (Debian: libamdhip64-5; AMD: hip-runtime-amd), or set KLAB_HIPRTC to libhiprtc.so";

// libamdhip64.so.5.2.21153 -> 5.2.21153; what hiprtcVersion says is another number.
std::string version_of_name(const std::string& path) {
  std::error_code ec;
  const std::string name = fs::canonical(path, ec).filename().string();
  const std::size_t at = name.find(".so.");
  return at == std::string::npos ? "" : name.substr(at + 4);
}

std::string opened_path(void* function, const std::string& otherwise) {
  Dl_info info{};
  return ::dladdr(function, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : otherwise;
}

std::string loader_words(const std::string& path) {
  const char* why = ::dlerror();
  return why != nullptr ? why : path;
}

Library load() {
  Library library;
  const FoundFile found = find_hiprtc();
  if (!found) {
    library.problem = "no libhiprtc.so or libamdhip64.so in ROCM_PATH, HIP_PATH, /opt/rocm or the system's folders";
    return library;
  }
  const std::string path = found.path.string();
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    library.problem = loader_words(path);
    return library;
  }
  std::string missing;
  const auto get = [&](const char* name, auto& target) {
    void* address = ::dlsym(handle, name);
    if (address == nullptr && missing.empty()) missing = name;
    target = reinterpret_cast<std::remove_reference_t<decltype(target)>>(address);
  };
  Api& api = library.api;
  get("hiprtcVersion", api.version);
  get("hiprtcCreateProgram", api.create);
  get("hiprtcDestroyProgram", api.destroy);
  get("hiprtcCompileProgram", api.compile);
  get("hiprtcGetCodeSize", api.code_size);
  get("hiprtcGetCode", api.code);
  get("hiprtcGetProgramLogSize", api.log_size);
  get("hiprtcGetProgramLog", api.log);
  get("hiprtcAddNameExpression", api.add_name);
  get("hiprtcGetLoweredName", api.lowered);
  get("hiprtcGetErrorString", api.error_string);
  if (!missing.empty()) {
    library.problem = fmt::format("{} has no {}", path, missing);
    return library;
  }
  library.path = opened_path(reinterpret_cast<void*>(api.version), path);
  library.version = version_of_name(library.path);
  int major = 0, minor = 0;
  if (library.version.empty() && api.version(&major, &minor) == 0) library.version = fmt::format("{}.{}", major, minor);
  return library;
}

const Library& library() {
  static const Library it = load();
  return it;
}

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
  std::string log() const {
    std::string text = taken(api_.log_size, api_.log);
    while (!text.empty() && text.back() == '\0') text.pop_back();
    return text;
  }
  std::string code() const { return taken(api_.code_size, api_.code); }

 private:
  template <class Size, class Get>
  std::string taken(Size size, Get get) const {
    std::size_t n = 0;
    if (size(program_, &n) != 0 || n == 0 || n > (1ull << 30)) return {};
    std::string out(n, '\0');
    return get(program_, out.data()) == 0 ? out : std::string();
  }
  const Api& api_;
  Program program_ = nullptr;
  int failed_ = 0;
};

/// comgr writes its files there; a crash leaves them, and Scratch::sweep takes them away.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const fs::path& folder) {
    if (const char* before = std::getenv("TMPDIR")) before_ = before;
    ::setenv("TMPDIR", folder.c_str(), 1);
    ::unsetenv("HIPRTC_COMPILE_OPTIONS_APPEND");  // not part of the key of a cached build
    ::unsetenv("HIPRTC_LINK_OPTIONS_APPEND");
  }
  ~TemporaryFolder() {
    if (before_)
      ::setenv("TMPDIR", before_->c_str(), 1);
    else
      ::unsetenv("TMPDIR");
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

 private:
  std::optional<std::string> before_;
};

// The source is a file of comgr's own folder there: "/tmp/.../comgr-7d65e7/input/CompileSource".
std::string without_comgr_names(std::string log, const std::string& shown) {
  constexpr std::string_view kName = "/input/CompileSource";
  for (std::size_t at = log.find(kName); at != std::string::npos; at = log.find(kName, at)) {
    std::size_t from = at;
    while (from > 0 && log[from - 1] != ' ' && log[from - 1] != '\n') --from;
    log.replace(from, at + kName.size() - from, shown);
    at = from + shown.size();
  }
  return log;
}

}  // namespace

CudaOutcome compile_hiprtc(const std::string& text, const std::string& name, const Options& options,
                           const std::string& instantiate, const std::string& expression) {
  CudaOutcome outcome;
  const Library& lib = library();
  if (lib.path.empty()) {
    outcome.code = fail(ErrorCode::environment, "hiprtc cannot be used: " + lib.problem, kInstallHint);
    return outcome;
  }
  outcome.compiler = "hiprtc " + lib.version;
  const std::string shown = name.empty() ? "source.hip" : name;
  if (auto s = check_hip_options(options); !s) {
    outcome.code = fail(s.error());
    return outcome;
  }
  if (text.find('\0') != std::string::npos) {
    outcome.code = fail(ErrorCode::compile_failed, fmt::format("{} holds a zero byte", shown), "is it a source file?");
    return outcome;
  }
  Scratch scratch;
  if (!scratch.ok()) {
    outcome.code = fail(scratch.error());
    return outcome;
  }
  const TemporaryFolder temporary(scratch.path());
  Compilation run(lib.api, under_name(text, shown, instantiate), shown);
  if (run.failed() != 0) {
    outcome.code = fail(ErrorCode::compile_failed,
                        fmt::format("hiprtcCreateProgram: {}", lib.api.error_string(run.failed())), "", run.failed());
    return outcome;
  }
  if (!expression.empty()) (void)run.name(expression);
  const fs::path own = fs::path(shown).parent_path();
  std::vector<std::string> argv{"--gpu-architecture=" + options.arch};
  add_hip_options(options, own.empty() ? "." : own.string(), argv);
  for (const std::string& folder : hip_include_folders()) argv.push_back("-I" + folder);
  const int failed = run.compile(argv);
  outcome.log = without_comgr_names(run.log(), shown);
  outcome.messages = parse_cuda_messages(outcome.log);
  if (failed != 0) {
    Error error = first_error(outcome.messages, shown, outcome.log);
    error.vendor = failed;
    if (outcome.messages.empty() && outcome.log.empty())
      error.what = fmt::format("{}: hiprtcCompileProgram: {}", shown, lib.api.error_string(failed));
    if (error.what.find("file not found") != std::string::npos)
      error.hint = "hiprtc takes device code only; --compiler hipcc takes the host's headers too";
    outcome.code = fail(std::move(error));
    return outcome;
  }
  if (!expression.empty()) outcome.lowered_name = run.lowered(expression);
  const std::string made = run.code();
  const auto hsaco = unbundle(std::as_bytes(std::span(made)), options.arch);
  if (!hsaco)
    outcome.code = fail(hsaco.error());
  else
    outcome.code = std::string(reinterpret_cast<const char*>(hsaco->data()), hsaco->size());
  return outcome;
}

Tool hiprtc_tool() {
  const Library& lib = library();
  Tool tool{"hiprtc", lib.path, lib.version, ""};
  if (lib.path.empty()) tool.problem = lib.problem + "; " + kInstallHint;
  return tool;
}

Tool comgr_tool() {
  const FoundFile found = find_rocm_library("amd_comgr");
  Tool tool{"comgr", "", "", ""};
  if (!found) {
    tool.problem = "no libamd_comgr.so in ROCM_PATH, HIP_PATH, /opt/rocm or the system's folders";
    return tool;
  }
  void* handle = ::dlopen(found.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* version = handle != nullptr ? ::dlsym(handle, "amd_comgr_get_version") : nullptr;
  if (version == nullptr) {
    tool.problem = loader_words(found.path.string());
    return tool;
  }
  std::size_t major = 0, minor = 0;
  reinterpret_cast<void (*)(std::size_t*, std::size_t*)>(version)(&major, &minor);
  tool.path = opened_path(version, found.path.string());
  tool.version = fmt::format("{}.{}", major, minor);
  return tool;
}

}  // namespace klab::compile
