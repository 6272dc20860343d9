// SPDX-License-Identifier: Apache-2.0
#include "compile/cuda/toolkit.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include "base/environment.h"
#include "base/subprocess.h"

namespace klab::compile {
namespace {

constexpr auto kRecent = std::chrono::seconds(5);

struct Place {
  fs::path folder;
  std::string how;
};

std::string variable(const char* name) {
  const char* value = environment_value(name);
  return value != nullptr ? value : "";
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

std::vector<fs::path> children(const fs::path& folder, const std::string& prefix) {
  std::vector<fs::path> found;
  std::error_code ec;
  for (fs::directory_iterator it(folder, ec), end; !ec && it != end; it.increment(ec))
    if (it->path().filename().string().starts_with(prefix)) found.push_back(it->path());
  std::sort(found.rbegin(), found.rend());  // the newest first, as far as names tell
  return found;
}

// Roots that have bin/, lib64/ and include/.
std::vector<Place> toolkit_roots() {
  std::vector<Place> roots;
  for (const char* name : {"CUDA_HOME", "CUDA_PATH", "CUDAToolkit_ROOT"})
    if (const std::string value = variable(name); !value.empty()) roots.push_back({value, name});
  if (const fs::path nvcc = find_program("nvcc"); !nvcc.empty()) {
    std::error_code ec;
    const fs::path real = fs::canonical(nvcc, ec);
    if (!ec) roots.push_back({real.parent_path().parent_path(), "PATH"});
  }
  roots.push_back({"/usr/local/cuda", "/usr/local/cuda"});
  for (const fs::path& p : children("/usr/local", "cuda-")) roots.push_back({p, p.string()});
  roots.push_back({"/opt/cuda", "/opt/cuda"});
  return roots;
}

std::vector<fs::path> site_packages() {
  std::vector<fs::path> folders, prefixes;
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const std::string value = variable(name); !value.empty()) prefixes.emplace_back(value);
  for (const char* name : {"python3", "python"})
    if (const fs::path python = find_program(name); !python.empty()) {
      std::error_code ec;
      prefixes.push_back(python.parent_path().parent_path());
      if (const fs::path real = fs::canonical(python, ec); !ec)
        prefixes.push_back(real.parent_path().parent_path());
    }
  if (const std::string home = variable("HOME"); !home.empty()) prefixes.push_back(fs::path(home) / ".local");
  prefixes.emplace_back("/usr/local");
  prefixes.emplace_back("/usr");
  for (const fs::path& prefix : prefixes)
    for (const fs::path& python : children(prefix / "lib", "python3"))
      for (const char* name : {"site-packages", "dist-packages"}) {
        std::error_code ec;
        const fs::path folder = python / name;
        if (fs::is_directory(folder, ec) &&
            std::find(folders.begin(), folders.end(), folder) == folders.end())
          folders.push_back(folder);
      }
  return folders;
}

// Folders of NVIDIA's wheels: nvidia/cu13 (one root) or nvidia/cuda_nvrtc (one root for each part).
std::vector<Place> wheel_roots(const std::string& part) {
  std::vector<Place> roots;
  for (const fs::path& site : site_packages()) {
    for (const fs::path& p : children(site / "nvidia", "cu1"))
      roots.push_back({p, fmt::format("Python package nvidia.{}", p.filename().string())});
    std::error_code ec;
    if (const fs::path p = site / "nvidia" / part; fs::is_directory(p, ec))
      roots.push_back({p, fmt::format("Python package nvidia.{}", part)});
  }
  return roots;
}

bool runnable(const fs::path& path) {
  std::error_code ec;
  return fs::is_regular_file(path, ec) && ::access(path.c_str(), X_OK) == 0;
}

fs::path library_in(const fs::path& folder, const std::string& name) {
  std::error_code ec;
  if (!fs::is_directory(folder, ec)) return {};
  for (const char* version : {".so.13", ".so.12", ".so.11.2", ".so"})
    if (const fs::path p = folder / ("lib" + name + version); fs::is_regular_file(p, ec)) return p;
  const auto all = children(folder, "lib" + name + ".so");
  return all.empty() ? fs::path() : all.front();
}

}  // namespace

namespace {

FoundFile look_for_program(const std::string& name) {
  if (const std::string own = variable(("KLAB_" + upper(name)).c_str()); !own.empty())
    return runnable(own) ? FoundFile{own, "KLAB_" + upper(name)} : FoundFile{};
  for (const Place& root : toolkit_roots())
    if (const fs::path p = root.folder / "bin" / name; runnable(p)) return {p, root.how};
  if (const fs::path p = find_program(name); !p.empty()) return {p, "PATH"};
  const std::string part = name == "ptxas" ? "cuda_nvcc" : "cuda_" + name;
  for (const Place& root : wheel_roots(part))
    if (const fs::path p = root.folder / "bin" / name; runnable(p)) return {p, root.how};
  for (const fs::path& site : site_packages())
    if (const fs::path p = site / "triton/backends/nvidia/bin" / name; runnable(p))
      return {p, "Python package triton"};
  return {};
}

FoundFile look_for_library(const std::string& name) {
  if (const std::string own = variable(("KLAB_" + upper(name)).c_str()); !own.empty()) {
    std::error_code ec;
    return fs::is_regular_file(own, ec) ? FoundFile{own, "KLAB_" + upper(name)} : FoundFile{};
  }
  for (const Place& root : toolkit_roots())
    for (const char* folder : {"lib64", "lib", "targets/x86_64-linux/lib"})
      if (const fs::path p = library_in(root.folder / folder, name); !p.empty()) return {p, root.how};
  for (const char* folder : {"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"})
    if (const fs::path p = library_in(folder, name); !p.empty()) return {p, folder};
  std::string part = name == "nvrtc" ? "cuda_nvrtc" : "nvjitlink";
  for (const Place& root : wheel_roots(part))
    if (const fs::path p = library_in(root.folder / "lib", name); !p.empty()) return {p, root.how};
  return {};
}

std::vector<std::string> look_for_headers(const fs::path& beside) {
  std::vector<std::string> folders;
  std::error_code ec;
  const auto add = [&](const fs::path& folder, const char* proof) {
    if (!fs::exists(folder / proof, ec)) return false;
    const fs::path real = fs::canonical(folder, ec);
    const std::string name = ec ? folder.string() : real.string();
    if (std::find(folders.begin(), folders.end(), name) == folders.end()) folders.push_back(name);
    return true;
  };
  // bin/nvcc, lib64/libnvrtc.so, targets/x86_64-linux/lib/libnvrtc.so
  const fs::path real = fs::canonical(beside, ec);
  fs::path root = (ec ? beside : real).parent_path().parent_path();
  std::vector<fs::path> roots{root, beside.parent_path().parent_path(), root / "targets/x86_64-linux"};
  for (const Place& place : toolkit_roots()) roots.push_back(place.folder);
  for (const char* part : {"cuda_runtime", "cuda_cccl"})
    for (const Place& place : wheel_roots(part)) roots.push_back(place.folder);
  bool runtime = false, cccl = false;
  for (const fs::path& r : roots) {
    if (!runtime && add(r / "include", "cuda_runtime.h")) runtime = true;
    if (!cccl && (add(r / "include/cccl", "cuda/std") || add(r / "include", "cuda/std/version"))) cccl = true;
  }
  return folders;
}

// A search looks at hundreds of places (Python packages above all), and a build asks several times. What was
// found is looked at afresh each time (file_identity); only where it is may be seconds old.
template <class T, class Look>
T recent(const std::string& what, Look look) {
  struct Entry {
    std::string environment;
    std::chrono::steady_clock::time_point at;
    T value;
  };
  static std::mutex mutex;
  static std::map<std::string, Entry> known;
  std::string environment;
  for (const char* name :
       {"PATH", "HOME", "CUDA_HOME", "CUDA_PATH", "CUDAToolkit_ROOT", "VIRTUAL_ENV", "CONDA_PREFIX",
        "KLAB_NVRTC", "KLAB_NVJITLINK", "KLAB_NVCC", "KLAB_PTXAS", "KLAB_NVDISASM", "KLAB_CUOBJDUMP"})
    environment += variable(name) + "\n";
  const auto now = std::chrono::steady_clock::now();
  const std::lock_guard hold(mutex);
  const auto found = known.find(what);
  if (found != known.end() && found->second.environment == environment && now - found->second.at < kRecent)
    return found->second.value;
  T value = look();
  known[what] = {std::move(environment), now, value};
  return value;
}

}  // namespace

FoundFile find_cuda_program(const std::string& name) {
  return recent<FoundFile>("program " + name, [&] { return look_for_program(name); });
}

FoundFile find_cuda_library(const std::string& name) {
  return recent<FoundFile>("library " + name, [&] { return look_for_library(name); });
}

std::vector<std::string> cuda_include_folders(const fs::path& beside) {
  return recent<std::vector<std::string>>("headers " + beside.string(),
                                          [&] { return look_for_headers(beside); });
}

std::string file_identity(const fs::path& path) {
  struct stat st {};
  if (path.empty() || ::stat(path.c_str(), &st) != 0) return "-";
  return fmt::format("{} {} {}.{:09}", path.string(), st.st_size, st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
}

std::string toolkit_identity() {
  const fs::path nvrtc = find_cuda_library("nvrtc").path, nvcc = find_cuda_program("nvcc").path,
                 ptxas = find_cuda_program("ptxas").path;
  std::string text = file_identity(nvrtc) + "\n" + file_identity(nvcc) + "\n" + file_identity(ptxas);
  for (const char* tool : {"nvdisasm", "cuobjdump"})
    text += "\n" + file_identity(find_cuda_program(tool).path);
  // nvcc calls these: an update touches all of them.
  for (const char* part : {"cudafe++", "../nvvm/bin/cicc"})
    if (!nvcc.empty()) text += "\n" + file_identity(nvcc.parent_path() / part);
  for (const std::string& folder : cuda_include_folders(nvrtc.empty() ? nvcc : nvrtc))
    text += "\n" + file_identity(folder) + file_identity(fs::path(folder) / "cuda_runtime.h");
  if (const fs::path host = find_program("g++"); !host.empty()) text += "\n" + file_identity(host);
  return text;
}

}  // namespace klab::compile
