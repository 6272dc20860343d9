// SPDX-License-Identifier: Apache-2.0
// Child processes by argument vector, each in a process group of its own so that it can be ended whole.
// Not here: what is said to them (replay/, capture/, compile/).
#pragma once
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files.h"

namespace klab {

struct SpawnOptions {
  std::vector<std::string> argv;  // argv[0] is looked up in PATH
  std::map<std::string, std::optional<std::string>>
      environment;                  // set, or removed when empty; the rest is inherited
  fs::path working_folder;          // empty: ours
  int in = -1, out = -1, err = -1;  // -1: /dev/null for `in`, inherited for the others
  std::map<int, int> extra_fds;     // child's number -> ours
  bool own_group = true;            // a terminal's ctrl-C then reaches only us
  bool die_with_parent = false;     // SIGKILL when we die (prctl PR_SET_PDEATHSIG)
};

struct ExitStatus {
  int code = 0;    // exit code, when signal == 0
  int signal = 0;  // the signal that ended it
  bool ok() const { return code == 0 && signal == 0; }
};
/// "exited with 3", "was ended by SIGSEGV".
std::string to_string(const ExitStatus& status);

/// A running child. Destruction kills its group and reaps it.
class Child {
 public:
  /// Errors: not_found when argv[0] does not exist, environment when it may not be run, io_failed.
  static Result<Child> spawn(const SpawnOptions& options);
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;
  ~Child();

  pid_t pid() const { return pid_; }
  /// Waits up to `limit` (for ever without one); empty when it still runs.
  std::optional<ExitStatus> wait(std::optional<std::chrono::milliseconds> limit = std::nullopt);
  /// Sends `signal` to the child's group (or to it alone without own_group).
  void kill(int signal);
  /// Polls as readable when the child has ended (pidfd); -1 where the kernel has none.
  int pidfd() const { return pidfd_.get(); }

 private:
  Child() = default;
  pid_t pid_ = -1;
  bool own_group_ = true;
  Fd pidfd_;
  std::optional<ExitStatus> status_;
};

struct Finished {
  ExitStatus status;
  std::string out, err;  // each cut at the cap
  bool timed_out = false;
};
/// Runs to the end with captured output. Over `limit` the group is killed and `timed_out` set. Output beyond
/// `cap` bytes is read and dropped, and one line says so. Errors: those of spawn.
Result<Finished> run_program(SpawnOptions options, std::string_view input = {},
                             std::chrono::milliseconds limit = std::chrono::minutes(10),
                             std::size_t cap = 64u << 20);

/// The path of `name` in PATH, or empty.
fs::path find_program(const std::string& name);

}  // namespace klab
