// SPDX-License-Identifier: Apache-2.0
#include "capture/launch.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "base/environment.h"
#include "base/ids.h"
#include "shim/abi/abi.h"

namespace klab::capture {
namespace {

constexpr char kLayer[] = "VK_LAYER_KLAB_capture";
constexpr char kManifest[] = "VkLayer_klab_capture.json";
constexpr char kCudaShim[] = "libklab_cuda.so";
constexpr char kCudaVariable[] = "CUDA_INJECTION64_PATH";
constexpr char kHsaShim[] = "libklab_hsa.so";
constexpr char kHsaVariable[] = "HSA_TOOLS_LIB";
constexpr char kPrefix[] = "klab-capture-";

// Field 22 of /proc/PID/stat: together with the pid it names a process for ever.
std::string start_time(pid_t pid) {
  auto text = read_file(fmt::format("/proc/{}/stat", pid), 4096);
  if (!text) return {};
  std::size_t at = text->rfind(')');
  if (at == std::string::npos) return {};
  for (int field = 2; field < 22; ++field) {
    at = text->find(' ', at + 1);
    if (at == std::string::npos) return {};
  }
  return text->substr(at + 1, text->find(' ', at + 1) - at - 1);
}

fs::path socket_parent() {
  // A socket's path may be 107 bytes long.
  if (const char* runtime = environment_value("XDG_RUNTIME_DIR"); runtime != nullptr && *runtime == '/') {
    struct stat st {};
    if (std::strlen(runtime) < 48 && ::stat(runtime, &st) == 0 && S_ISDIR(st.st_mode) &&
        st.st_uid == ::getuid() && ::access(runtime, W_OK | X_OK) == 0)
      return runtime;
  }
  return "/tmp";
}

void sweep(const fs::path& parent) {
  std::error_code ec;
  for (fs::directory_iterator it(parent, ec), end; !ec && it != end; it.increment(ec)) {
    const std::string name = it->path().filename().string();
    if (name.rfind(kPrefix, 0) != 0) continue;
    struct stat st {};
    if (::lstat(it->path().c_str(), &st) != 0 || !S_ISDIR(st.st_mode) || st.st_uid != ::getuid()) continue;
    const std::string owner = name.substr(std::strlen(kPrefix));
    const auto first = owner.find('-'), second = owner.find('-', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const pid_t pid = static_cast<pid_t>(std::strtol(owner.c_str(), nullptr, 10));
    if (pid > 0 && start_time(pid) == owner.substr(first + 1, second - first - 1)) continue;
    ::unlink((it->path() / "s").c_str());
    ::rmdir(it->path().c_str());
  }
}

}  // namespace

Result<Shims> find_shims() {
  const fs::path here = program_folder();
  Shims shims;
  for (const fs::path& folder : {here, here / ".." / "lib" / "klab"}) {
    if (shims.layer_folder.empty() && ::access((folder / kManifest).c_str(), R_OK) == 0 &&
        ::access((folder / "libVkLayer_klab_capture.so").c_str(), R_OK) == 0)
      shims.layer_folder = folder.lexically_normal();
    if (shims.cuda.empty() && ::access((folder / kCudaShim).c_str(), R_OK) == 0)
      shims.cuda = (folder / kCudaShim).lexically_normal();
    if (shims.hsa.empty() && ::access((folder / kHsaShim).c_str(), R_OK) == 0)
      shims.hsa = (folder / kHsaShim).lexically_normal();
  }
  if (!shims.layer_folder.empty() || !shims.cuda.empty() || !shims.hsa.empty()) return shims;
  return fail(ErrorCode::environment,
              fmt::format("no {}, no {} and no {} beside {}", kManifest, kCudaShim, kHsaShim, here.string()),
              "build the shims (ninja VkLayer_klab_capture klab_cuda klab_hsa), or install them to ../lib/klab");
}

std::map<std::string, std::optional<std::string>> layer_environment(
    const fs::path& folder, const std::function<std::optional<std::string>(const std::string&)>& get) {
  std::map<std::string, std::optional<std::string>> set;
  auto append = [&](const char* name, const std::string& value) {
    const auto before = get(name);
    set[name] = before && !before->empty() ? *before + ":" + value : value;
  };
  // The loader ignores VK_ADD_LAYER_PATH when VK_LAYER_PATH is set.
  const auto path = get("VK_LAYER_PATH");
  append(path && !path->empty() ? "VK_LAYER_PATH" : "VK_ADD_LAYER_PATH", folder.string());
  // Named last: nearest to the driver, below the user's own layers. Who names it elsewhere keeps it there.
  const auto layers = get("VK_INSTANCE_LAYERS");
  if (!layers || (":" + *layers + ":").find(fmt::format(":{}:", kLayer)) == std::string::npos)
    append("VK_INSTANCE_LAYERS", kLayer);
  return set;
}

std::map<std::string, std::optional<std::string>> cuda_environment(
    const fs::path& shim, const std::function<std::optional<std::string>(const std::string&)>& get,
    std::vector<std::string>& warnings) {
  const auto before = get(kCudaVariable);
  if (before && !before->empty() && *before != shim.string()) {
    warnings.push_back(fmt::format(
        "{} is set to {} and stays so: the CUDA driver loads one library, and CUDA launches are not seen; unset it",
        kCudaVariable, *before));
    return {};
  }
  return {{kCudaVariable, shim.string()}};
}

std::map<std::string, std::optional<std::string>> hsa_environment(
    const fs::path& shim, const std::function<std::optional<std::string>(const std::string&)>& get) {
  std::map<std::string, std::optional<std::string>> set;
  // The runtime splits at blanks, and takes a backslash before what is meant as it is.
  std::string name;
  for (const char c : shim.string()) {
    if (c == ' ' || c == '"' || c == '\\') name += '\\';
    name += c;
  }
  const auto before = get(kHsaVariable);
  if (!before || before->empty())
    set[kHsaVariable] = name;
  else if ((" " + *before + " ").find(" " + name + " ") == std::string::npos)
    set[kHsaVariable] = *before + " " + name;
  // Newer runtimes hand their tables to rocprofiler-register, and load no library of this variable when a tool of
  // rocprofiler-sdk is in the process. Where the user wants that registration, both are asked for (docs/decisions/0010).
  if (!get("HSA_TOOLS_DISABLE_REGISTER")) set["HSA_TOOLS_DISABLE_REGISTER"] = "1";
  if (!get("HSA_TOOLS_ROCPROFILER_V1_TOOLS")) set["HSA_TOOLS_ROCPROFILER_V1_TOOLS"] = "1";
  return set;
}

Result<Rendezvous> Rendezvous::create() {
  const fs::path parent = socket_parent();
  sweep(parent);
  Rendezvous r;
  const fs::path folder =
      parent / fmt::format("{}{}-{}-{}", kPrefix, ::getpid(), start_time(::getpid()), new_id(6));
  if (::mkdir(folder.c_str(), 0700) != 0) return fail_errno(errno, folder.string());
  r.folder_ = folder;
  r.socket_ = folder / "s";
  r.listening_ = Fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (!r.listening_ || r.socket_.native().size() >= sizeof address.sun_path)
    return fail_errno(errno, "socket");
  std::strcpy(address.sun_path, r.socket_.c_str());
  if (::bind(r.listening_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(r.listening_.get(), 64) != 0)
    return fail_errno(errno, r.socket_.string());
  return r;
}

Rendezvous& Rendezvous::operator=(Rendezvous&& other) noexcept {
  std::swap(folder_, other.folder_);
  std::swap(socket_, other.socket_);
  std::swap(listening_, other.listening_);
  return *this;
}

Rendezvous::~Rendezvous() {
  if (folder_.empty()) return;
  ::unlink(socket_.c_str());
  ::rmdir(folder_.c_str());
}

Result<Child> start_target(const Target& target, const Shims& shims, const fs::path& socket,
                           std::vector<std::string>& warnings) {
  SpawnOptions options;
  options.argv = target.argv;
  options.working_folder = target.working_folder;
  options.environment = target.environment;
  const auto get = [&](const std::string& name) -> std::optional<std::string> {
    if (const auto it = target.environment.find(name); it != target.environment.end()) return it->second;
    const char* value = environment_value(name.c_str());
    return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
  };
  if (!shims.layer_folder.empty())
    for (auto& [name, value] : layer_environment(shims.layer_folder, get)) options.environment[name] = value;
  if (!shims.cuda.empty())
    for (auto& [name, value] : cuda_environment(shims.cuda, get, warnings)) options.environment[name] = value;
  if (!shims.hsa.empty())
    for (auto& [name, value] : hsa_environment(shims.hsa, get)) options.environment[name] = value;
  options.environment[KLAB_SOCKET_VARIABLE] = socket.string();
  Fd null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  options.out = target.quiet ? null.get() : 2;  // our own stdout carries results
  // A terminal's input is not given to a background group: reading it would stop the target.
  if (::isatty(0) == 0 && ::fcntl(0, F_GETFD) >= 0) options.in = 0;
  if (target.output >= 0) options.out = options.err = target.output, options.in = -1;
  auto child = Child::spawn(options);
  if (child) return child;
  Error error = child.error();
  error.code = ErrorCode::target_failed;
  error.what = fmt::format("could not start {}: {}", target.argv.empty() ? "" : target.argv[0], error.what);
  if (error.hint.empty()) error.hint = "check that the program starts without klab";
  return fail(std::move(error));
}

}  // namespace klab::capture
