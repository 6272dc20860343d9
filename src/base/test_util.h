// SPDX-License-Identifier: Apache-2.0
// For tests: a folder of files that goes away, and an environment variable set for a while.
#pragma once
#include <cstdlib>
#include <string>

#include "base/files.h"
#include "base/ids.h"

namespace klab {

class TestFolder {
 public:
  TestFolder() : path_(fs::temp_directory_path() / ("klab-test-" + new_id())) { (void)make_folders(path_); }
  ~TestFolder() {
    std::error_code ec;
    fs::remove_all(path_, ec);
  }
  std::string add(const std::string& name, std::string_view text, unsigned mode = 0600) const {
    (void)make_folders((path_ / name).parent_path());
    (void)write_file_atomic(path_ / name, text, mode);
    return (path_ / name).string();
  }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

class ScopedVariable {
 public:
  ScopedVariable(std::string name, const std::string& value) : name_(std::move(name)) {
    if (const char* old = std::getenv(name_.c_str())) old_ = old, had_ = true;
    ::setenv(name_.c_str(), value.c_str(), 1);
  }
  ~ScopedVariable() {
    if (had_)
      ::setenv(name_.c_str(), old_.c_str(), 1);
    else
      ::unsetenv(name_.c_str());
  }

 private:
  std::string name_, old_;
  bool had_ = false;
};

}  // namespace klab
