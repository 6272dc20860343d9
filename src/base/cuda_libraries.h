// SPDX-License-Identifier: Apache-2.0
// Where a library of the CUDA toolkit may lie on this machine. Header only, and needs nothing but the standard
// library, so that shims can use it too.
#pragma once
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace klab {

/// Folders in the order in which they are searched: CUDA_HOME, CUDA_PATH, /usr/local/cuda*, and the wheels of the Python
/// that VIRTUAL_ENV names, that runs this process, or that comes first in PATH.
inline std::vector<std::filesystem::path> cuda_library_folders(const char* stem) {
  namespace fs = std::filesystem;
  std::vector<fs::path> folders;
  std::error_code ec;
  const auto toolkit = [&](const fs::path& root) {
    for (const char* below : {"lib64", "extras/CUPTI/lib64", "targets/x86_64-linux/lib"})
      folders.push_back(root / below);
  };
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* root = std::getenv(variable); root != nullptr && *root != '\0') toolkit(root);
  toolkit("/usr/local/cuda");
  std::vector<fs::path> versions;
  for (fs::directory_iterator it("/usr/local", ec), end; !ec && it != end; it.increment(ec))
    if (it->path().filename().string().rfind("cuda-", 0) == 0) versions.push_back(it->path());
  std::sort(versions.rbegin(), versions.rend());
  for (const fs::path& v : versions) toolkit(v);

  std::vector<fs::path> prefixes;
  if (const char* env = std::getenv("VIRTUAL_ENV"); env != nullptr && *env != '\0') prefixes.emplace_back(env);
  char self[PATH_MAX];
  if (const ssize_t n = ::readlink("/proc/self/exe", self, sizeof self); n > 0)
    prefixes.push_back(fs::path(std::string(self, static_cast<std::size_t>(n))).parent_path().parent_path());
  if (const char* path = std::getenv("PATH"); path != nullptr)
    for (std::string rest = path; !rest.empty();) {
      const std::size_t colon = rest.find(':');
      const fs::path folder = rest.substr(0, colon);
      rest = colon == std::string::npos ? "" : rest.substr(colon + 1);
      if (!fs::exists(folder / "python3", ec)) continue;
      prefixes.push_back(folder.parent_path());
      break;
    }
  for (const fs::path& prefix : prefixes) {
    for (fs::directory_iterator it(prefix / "lib", ec), end; !ec && it != end; it.increment(ec)) {
      if (it->path().filename().string().rfind("python3", 0) != 0) continue;
      const fs::path wheels = it->path() / "site-packages" / "nvidia";
      for (const char* group : {"cu13", "cu12"}) folders.push_back(wheels / group / "lib");
      folders.push_back(wheels / (std::string("cuda_") + stem) / "lib");
    }
    ec.clear();
  }
  return folders;
}

/// What to dlopen, in order: the file that `variable` names (nothing else then), the loader's own search, and every
/// such file in cuda_library_folders(). `stem` is "cupti", "nvrtc", ...
inline std::vector<std::string> cuda_library_candidates(const char* stem, const char* variable) {
  namespace fs = std::filesystem;
  if (const char* named = std::getenv(variable); named != nullptr && *named != '\0') return {named};
  const std::string base = std::string("lib") + stem + ".so";
  std::vector<std::string> out;
  for (const char* version : {".13", ".12", ""}) out.push_back(base + version);
  std::error_code ec;
  for (const fs::path& folder : cuda_library_folders(stem))
    for (const char* version : {".13", ".12", ""})
      if (fs::exists(folder / (base + version), ec)) out.push_back((folder / (base + version)).string());
  return out;
}

}  // namespace klab
