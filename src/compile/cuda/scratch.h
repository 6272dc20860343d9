// SPDX-License-Identifier: Apache-2.0
// A folder for what a compiler writes on its way, gone afterwards.
#pragma once
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/error.h"
#include "base/files.h"
#include "base/ids.h"

namespace klab::compile {

class Scratch {
 public:
  static constexpr char kPrefix[] = "klab-compile-";  // then the process and an id
  /// Removes what ended processes of this user left (a crash, SIGKILL).
  static void sweep() {
    std::error_code ec;
    for (fs::directory_iterator it(fs::temp_directory_path(ec), ec), end; !ec && it != end;
         it.increment(ec)) {
      const std::string name = it->path().filename().string();
      struct stat st {};
      if (!name.starts_with(kPrefix) || ::lstat(it->path().c_str(), &st) != 0 || st.st_uid != ::getuid() ||
          !S_ISDIR(st.st_mode))
        continue;
      const long pid = std::strtol(name.c_str() + sizeof kPrefix - 1, nullptr, 10);
      std::error_code one;
      if (pid > 0 && ::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH)
        fs::remove_all(it->path(), one);
    }
  }
  Scratch() {
    std::error_code ec;
    path_ = fs::temp_directory_path(ec) / (kPrefix + std::to_string(::getpid()) + "-" + new_id());
    status_ = make_folders(path_);
  }
  ~Scratch() {
    std::error_code ec;
    fs::remove_all(path_, ec);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  bool ok() const { return status_.has_value(); }
  const Error& error() const { return status_.error(); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  Status status_;
};

}  // namespace klab::compile
