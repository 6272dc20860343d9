// SPDX-License-Identifier: Apache-2.0
#include "compile/hipcc/rocm.h"

#include <unistd.h>

#include "base/environment.h"
#include "base/subprocess.h"

namespace klab::compile {
namespace {

bool runnable(const fs::path& path) {
  std::error_code ec;
  return fs::is_regular_file(path, ec) && ::access(path.c_str(), X_OK) == 0;
}

}  // namespace

FoundFile find_hipcc() {
  if (const char* own = environment_value("KLAB_HIPCC"); own != nullptr && *own != '\0')
    return runnable(own) ? FoundFile{own, "KLAB_HIPCC"} : FoundFile{};
  for (const char* name : {"ROCM_PATH", "HIP_PATH"})
    if (const char* root = environment_value(name); root != nullptr && *root != '\0')
      if (const fs::path p = fs::path(root) / "bin/hipcc"; runnable(p)) return {p, name};
  if (const fs::path p = find_program("hipcc"); !p.empty()) return {p, "PATH"};
  if (const fs::path p = "/opt/rocm/bin/hipcc"; runnable(p)) return {p, "/opt/rocm"};
  return {};
}

std::string hipcc_identity() {
  const fs::path hipcc = find_hipcc().path;
  std::string text = file_identity(hipcc);
  std::error_code ec;
  const fs::path root = fs::canonical(hipcc, ec).parent_path().parent_path();
  for (const char* compiler : {"llvm/bin/clang++", "lib/llvm/bin/clang++"})
    text += "\n" + file_identity(root / compiler);
  // Debian's calls the clang that it was packaged with.
  for (const char* name : {"clang++-15", "clang++-17", "clang++-19", "clang++"})
    if (const fs::path p = find_program(name); !p.empty()) text += "\n" + file_identity(fs::canonical(p, ec));
  for (const std::string& folder : hip_system_folders())
    text += "\n" + file_identity(folder) + file_identity(fs::path(folder) / "hip/hip_version.h");
  return text;
}

std::vector<std::string> hip_system_folders() {
  std::vector<std::string> folders{"/usr/include", "/usr/lib", "/opt/rocm"};
  std::error_code ec;
  if (const fs::path hipcc = find_hipcc().path; !hipcc.empty()) {
    const std::string root = fs::canonical(hipcc, ec).parent_path().parent_path().string();
    if (root != "/usr" && root != "/") folders.push_back(root);
  }
  return folders;
}

}  // namespace klab::compile
