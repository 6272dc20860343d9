// SPDX-License-Identifier: Apache-2.0
#include "compile/hipcc/rocm.h"

#include <string.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/subprocess.h"

namespace klab::compile {
namespace {

bool runnable(const fs::path& path) {
  std::error_code ec;
  return fs::is_regular_file(path, ec) && ::access(path.c_str(), X_OK) == 0;
}

// Roots that have bin/, lib/ and include/.
std::vector<FoundFile> rocm_roots() {
  std::vector<FoundFile> roots;
  for (const char* name : {"ROCM_PATH", "HIP_PATH"})
    if (const char* root = environment_value(name); root != nullptr && *root != '\0') roots.push_back({root, name});
  std::error_code ec;
  if (const fs::path hipcc = find_program("hipcc"); !hipcc.empty())
    roots.push_back({fs::canonical(hipcc, ec).parent_path().parent_path(), "beside hipcc"});
  roots.push_back({"/opt/rocm", "/opt/rocm"});
  return roots;
}

fs::path library_in(const fs::path& folder, const std::string& name) {
  std::error_code ec;
  const std::string file = "lib" + name + ".so";
  if (const fs::path p = folder / file; fs::is_regular_file(p, ec)) return p;
  // Without the development package only versions are there: the highest by its numbers.
  fs::path best;
  const auto later = [](const std::string& a, const std::string& b) { return ::strverscmp(a.c_str(), b.c_str()) > 0; };
  for (fs::directory_iterator it(folder, ec), end; !ec && it != end; it.increment(ec))
    if (const std::string found = it->path().filename().string();
        found.starts_with(file + ".") && (best.empty() || later(found, best.filename().string())))
      best = it->path();
  return best;
}

}  // namespace

FoundFile find_hipcc(const std::string& own) {
  if (!own.empty()) return runnable(own) ? FoundFile{own, "--hipcc"} : FoundFile{};
  if (const char* named = environment_value("KLAB_HIPCC"); named != nullptr && *named != '\0')
    return runnable(named) ? FoundFile{named, "KLAB_HIPCC"} : FoundFile{};
  for (const char* name : {"ROCM_PATH", "HIP_PATH"})
    if (const char* root = environment_value(name); root != nullptr && *root != '\0')
      if (const fs::path p = fs::path(root) / "bin/hipcc"; runnable(p)) return {p, name};
  if (const fs::path p = find_program("hipcc"); !p.empty()) return {p, "PATH"};
  if (const fs::path p = "/opt/rocm/bin/hipcc"; runnable(p)) return {p, "/opt/rocm"};
  return {};
}

FoundFile find_rocm_library(const std::string& name) {
  for (const FoundFile& root : rocm_roots())
    for (const char* folder : {"lib", "lib64", "lib/x86_64-linux-gnu"})
      if (const fs::path p = library_in(root.path / folder, name); !p.empty()) return {p, root.how};
  for (const char* folder : {"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"})
    if (const fs::path p = library_in(folder, name); !p.empty()) return {p, folder};
  return {};
}

FoundFile find_hiprtc() {
  if (const char* own = environment_value("KLAB_HIPRTC"); own != nullptr && *own != '\0') {
    std::error_code ec;
    return fs::is_regular_file(own, ec) ? FoundFile{own, "KLAB_HIPRTC"} : FoundFile{};
  }
  if (const FoundFile p = find_rocm_library("hiprtc")) return p;
  return find_rocm_library("amdhip64");
}

std::string hip_identity(const std::string& own_hipcc) {
  const fs::path hipcc = find_hipcc(own_hipcc).path;
  std::string text = file_identity(hipcc);
  std::error_code ec;
  const fs::path root = fs::canonical(hipcc, ec).parent_path().parent_path();
  for (const char* compiler : {"llvm/bin/clang++", "lib/llvm/bin/clang++"})
    text += "\n" + file_identity(root / compiler);
  // Debian's calls the clang that it was packaged with.
  for (const char* name : {"clang++-15", "clang++-17", "clang++-19", "clang++"})
    if (const fs::path p = find_program(name); !p.empty()) text += "\n" + file_identity(fs::canonical(p, ec));
  text += "\n" + file_identity(find_hiprtc().path) + file_identity(find_rocm_library("amd_comgr").path);
  for (const std::string& folder : hip_system_folders(own_hipcc))
    text += "\n" + file_identity(folder) + file_identity(fs::path(folder) / "hip/hip_version.h");
  return text;
}

std::vector<std::string> hip_system_folders(const std::string& own_hipcc) {
  std::vector<std::string> folders{"/usr/include", "/usr/lib", "/opt/rocm"};
  std::error_code ec;
  if (const fs::path hipcc = find_hipcc(own_hipcc).path; !hipcc.empty()) {
    const std::string root = fs::canonical(hipcc, ec).parent_path().parent_path().string();
    if (root != "/usr" && root != "/") folders.push_back(root);
  }
  return folders;
}

std::vector<std::string> hip_include_folders() {
  std::error_code ec;
  for (const FoundFile& root : rocm_roots())
    if (const fs::path p = root.path / "include"; fs::is_regular_file(p / "hip/hip_runtime.h", ec))
      return root.path == "/usr" ? std::vector<std::string>{} : std::vector<std::string>{p.string()};
  return {};
}

}  // namespace klab::compile
