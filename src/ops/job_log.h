// SPDX-License-Identifier: Apache-2.0
// A job's log: a file with a cap. At the cap one line says so, and the job goes on.
#pragma once
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/error.h"
#include "base/files.h"

namespace klab::ops {

/// Thread: any.
class JobLog {
 public:
  /// Creates `file` (0600), with its folders. A log that cannot be written is no reason to stop: it stays empty.
  JobLog(const fs::path& file, std::uint64_t cap);
  JobLog(JobLog&&) noexcept;
  ~JobLog();
  /// A line of what klab itself does.
  void line(std::string_view text);
  /// The writing end of a pipe whose bytes go into the log: for programs that the job starts. -1 without one. What was
  /// written is in the log once this object has ended; a program that keeps its end open does not hold it up.
  int pipe();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace klab::ops
