// SPDX-License-Identifier: Apache-2.0
#include "shim/cuda/cupti.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/find_cupti.h"

namespace klab::shim {
namespace {

// A library of the program that is named libcupti, whatever its path.
int see_object(dl_phdr_info* info, std::size_t, void* found) {
  const char* base = info->dlpi_name != nullptr ? std::strrchr(info->dlpi_name, '/') : nullptr;
  if (base == nullptr || std::strncmp(base + 1, "libcupti.so", 11) != 0) return 0;
  *static_cast<std::string*>(found) = info->dlpi_name;
  return 1;
}

// Folders of Python packages that the program has libraries of: a process that runs inside a framework has
// its nvidia/ packages beside it.
int see_packages(dl_phdr_info* info, std::size_t, void* found) {
  if (info->dlpi_name == nullptr) return 0;
  const std::string name = info->dlpi_name;
  auto& all = *static_cast<std::vector<std::string>*>(found);
  for (const char* folder : {"/site-packages/", "/dist-packages/"})
    if (const std::size_t at = name.find(folder); at != std::string::npos) {
      const std::string path = name.substr(0, at + std::strlen(folder) - 1);
      if (all.empty() || all.back() != path) all.push_back(path);
    }
  return 0;
}

std::vector<std::string> interpreters() {
  std::vector<std::string> paths;
  char path[4096];
  if (const ssize_t n = ::readlink("/proc/self/exe", path, sizeof path); n > 0)
    paths.emplace_back(path, static_cast<std::size_t>(n));
  // As it was called: a virtual environment's python3 is a link out of it.
  if (const int fd = ::open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC); fd >= 0) {
    const ssize_t n = ::read(fd, path, sizeof path - 1);
    ::close(fd);
    if (n > 0) {
      path[n] = '\0';
      if (path[0] == '/') paths.emplace_back(path);
    }
  }
  return paths;
}

bool fill(void* library) {
  Cupti& c = cupti();
  bool all = true;
#define KLAB_LOAD(member, declared)                                             \
  c.member = reinterpret_cast<decltype(c.member)>(::dlsym(library, #declared)); \
  all = all && c.member != nullptr;
  KLAB_CUPTI_CALLS(KLAB_LOAD)
#undef KLAB_LOAD
  return all;
}

}  // namespace

Cupti& cupti() {
  static Cupti the;
  return the;
}

std::string failed(const char* call, CUptiResult result) {
  const char* text = nullptr;
  if (cupti().GetResultString != nullptr) cupti().GetResultString(result, &text);
  return std::string(call) + ": " + (text != nullptr ? text : "error") + " (" +
         std::to_string(static_cast<int>(result)) + ")";
}

std::string load_cupti(std::string (*use)()) {
  std::string tried;
  bool conflict = false;
  std::vector<void*> seen;  // one file has several names
  auto attempt = [&](const std::string& file, int more_flags) {
    if (conflict) return false;
    void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | more_flags);
    if (library == nullptr) {
      if (const char* why = ::dlerror();
          why != nullptr && more_flags == 0 && file.find('/') != std::string::npos)
        tried += (tried.empty() ? "" : "; ") + std::string(why);
      return false;
    }
    if (std::find(seen.begin(), seen.end(), library) != seen.end()) return false;
    seen.push_back(library);
    const std::string why = fill(library) ? use() : "it lacks functions that are needed";
    if (why.empty()) return true;  // stays open for as long as the process lives
    tried += (tried.empty() ? "" : "; ") + file + ": " + why;
    conflict = why.find("MULTIPLE_SUBSCRIBERS") != std::string::npos;  // another libcupti says the same
    cupti() = Cupti{};  // the library stays: it may have begun something
    return false;
  };
  // One that is loaded has the process's one subscriber, and must be shared.
  for (const char* name : {"libcupti.so.13", "libcupti.so.12", "libcupti.so"})
    if (attempt(name, RTLD_NOLOAD)) return {};
  std::string loaded;
  ::dl_iterate_phdr(see_object, &loaded);
  if (!loaded.empty() && attempt(loaded, RTLD_NOLOAD)) return {};
  std::vector<std::string> files = cupti_files(interpreters());
  std::vector<std::string> packages;
  ::dl_iterate_phdr(see_packages, &packages);
  std::vector<std::string> beside;
  for (const std::string& folder : packages)
    for (const char* below : {"/nvidia/cu13/lib/libcupti.so.13", "/nvidia/cuda_cupti/lib/libcupti.so.13",
                              "/nvidia/cuda_cupti/lib/libcupti.so.12"})
      if (::access((folder + below).c_str(), R_OK) == 0) beside.push_back(folder + below);
  // Of the packages that the program runs with, before the toolkit's; who names one gets that first.
  files.insert(std::getenv("KLAB_CUPTI") != nullptr ? files.end() : files.begin(), beside.begin(),
               beside.end());
  for (const std::string& file : files)
    if (attempt(file, 0)) return {};
  for (const char* name : {"libcupti.so.13", "libcupti.so.12", "libcupti.so"})
    if (attempt(name, 0)) return {};
  if (tried.empty())
    return "no libcupti was found; install the CUDA toolkit's CUPTI or the Python package nvidia-cuda-cupti, "
           "or name the "
           "file in KLAB_CUPTI";
  return tried +
         (conflict ? "; another CUPTI client is in the process: a profiler, a debugger, or its own profiling"
                   : "; name a libcupti that fits the driver in KLAB_CUPTI");
}

}  // namespace klab::shim
