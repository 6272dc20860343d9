// SPDX-License-Identifier: Apache-2.0
// Starts, watches and replaces klab-worker processes. Nothing here loads a driver.
#pragma once
#include <sys/types.h>

#include <functional>
#include <memory>

#include "base/files.h"
#include "replay/protocol.h"

namespace klab::replay {

using OnProgress = std::function<void(const Progress&)>;

/// A supervised worker. It starts at the first request, stays warm, and is replaced after a fault, a hang,
/// its own death, or a budget that ran out. Thread: one request at a time.
class Worker {
 public:
  struct Options {
    fs::path log;  // worker's stderr; empty: dropped. Capped at 64 MiB
    std::uint64_t log_cap = 64ull << 20;
    std::map<std::string, std::optional<std::string>> environment;
  };
  Worker();
  explicit Worker(Options options);
  Worker(Worker&&) noexcept;
  ~Worker();

  /// Always an answer when a worker could be started: a crash becomes outcome worker_lost (or device_fault
  /// when the driver said so), running past `request.budget_s` becomes timeout; the worker is then gone and
  /// the next request starts a new one. `cancelled` is polled; when it turns true the worker is ended.
  /// Time that the worker waits for a device which others hold is no part of the budget.
  /// Errors: environment, interrupted.
  Result<Answer> ask(const Request& request, const OnProgress& progress = {},
                     const std::function<bool()>& cancelled = {});

  /// 0: none runs. Thread: any.
  pid_t pid() const;
  /// Also takes note of one that has ended.
  bool running();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace klab::replay
