// SPDX-License-Identifier: Apache-2.0
// A folder for what a compiler writes on its way, gone afterwards.
#pragma once
#include "base/error.h"
#include "base/files.h"
#include "base/ids.h"

namespace klab::compile {

class Scratch {
 public:
  Scratch() {
    std::error_code ec;
    path_ = fs::temp_directory_path(ec) / ("klab-compile-" + new_id());
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
