// SPDX-License-Identifier: Apache-2.0
// Where a libcupti may lie: the shim and the worker's counters open the first that works, `klab doctor` names the first
// that is there. Header only, and of the standard library alone: shims include it.
// Not here: opening one (a front end never does), nvcc and NVRTC (compile/cuda/toolkit.h).
#pragma once
#include <glob.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

namespace klab {

/// Files that exist, best first, each once. `interpreters`: paths of running or installed programs whose
/// Python packages count, such as .../bin/python3. Variables are this process's.
inline std::vector<std::string> cupti_files(const std::vector<std::string>& interpreters) {
  std::vector<std::string> found;
  auto file = [&](const std::string& path) {
    if (::access(path.c_str(), R_OK) == 0 && std::find(found.begin(), found.end(), path) == found.end())
      found.push_back(path);
  };
  auto folder = [&](const std::string& path) {
    if (path.empty()) return;
    for (const char* name : {"libcupti.so.13", "libcupti.so.12", "libcupti.so"}) file(path + "/" + name);
  };
  auto packages = [&](const std::string& pattern) {  // of folders that hold Python packages
    for (const char* below : {"/nvidia/cu13/lib", "/nvidia/cuda_cupti/lib"}) {
      glob_t matches{};
      if (::glob((pattern + below).c_str(), GLOB_NOSORT, nullptr, &matches) == 0)
        for (std::size_t i = 0; i < matches.gl_pathc; ++i) folder(matches.gl_pathv[i]);
      ::globfree(&matches);
    }
  };
  auto prefix = [&](const std::string& path) {
    for (const char* lib : {"/lib/python3*/site-packages", "/lib/python3*/dist-packages",
                            "/lib/python3/dist-packages", "/lib64/python3*/site-packages"})
      packages(path + lib);
  };
  auto list = [](const char* value) {
    std::vector<std::string> parts(1);
    for (; value != nullptr && *value != '\0'; ++value) {
      if (*value == ':')
        parts.emplace_back();
      else
        parts.back() += *value;
    }
    return parts;
  };
  auto get = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value != nullptr ? value : "";
  };
  auto toolkit = [&](const std::string& path) {
    if (path.empty()) return;
    folder(path + "/lib64");
    folder(path + "/extras/CUPTI/lib64");
    folder(path + "/lib");
  };
  if (const std::string own = get("KLAB_CUPTI"); !own.empty()) {
    file(own);
    folder(own);
  }
  toolkit(get("CUDA_HOME"));
  toolkit(get("CUDA_PATH"));
  toolkit("/usr/local/cuda");
  for (const std::string& path : list(std::getenv("LD_LIBRARY_PATH"))) folder(path);
  for (const char* path : {"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib/aarch64-linux-gnu"})
    folder(path);
  if (const std::string venv = get("VIRTUAL_ENV"); !venv.empty()) prefix(venv);
  if (const std::string conda = get("CONDA_PREFIX"); !conda.empty()) {
    folder(conda + "/lib");
    prefix(conda);
  }
  for (const std::string& path : list(std::getenv("PYTHONPATH")))
    if (!path.empty()) packages(path);
  for (const std::string& program : interpreters) {
    const std::size_t slash = program.rfind('/');
    if (slash == std::string::npos) continue;
    const std::size_t above = program.rfind('/', slash - 1);
    if (slash == 0 || above == std::string::npos) continue;
    prefix(program.substr(0, above));
  }
  if (const std::string home = get("HOME"); !home.empty()) prefix(home + "/.local");
  prefix("/usr/local");
  prefix("/usr");
  return found;
}

/// Every python3 of PATH, for cupti_files.
inline std::vector<std::string> path_interpreters() {
  std::vector<std::string> found;
  const char* path = std::getenv("PATH");
  for (std::string rest = path != nullptr ? path : ""; !rest.empty();) {
    const std::size_t colon = rest.find(':');
    const std::string folder = rest.substr(0, colon);
    rest = colon == std::string::npos ? "" : rest.substr(colon + 1);
    const std::string python = folder + "/python3";
    if (!folder.empty() && ::access(python.c_str(), X_OK) == 0) found.push_back(python);
  }
  return found;
}

}  // namespace klab
