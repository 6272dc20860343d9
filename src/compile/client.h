// SPDX-License-Identifier: Apache-2.0
// A klab-compile that stays: its compilers are loaded once. Starting one costs 20 ms, and NVRTC's first
// compilation 30 ms more than the next. Not here: what is cached (cache.h).
#pragma once
#include <functional>
#include <memory>

#include "compile/protocol.h"

namespace klab::compile {

/// A supervised `klab-compile --serve`. It starts at the first request and is replaced after a crash, a hang,
/// an update of itself or of the CUDA toolkit, a change of the working folder, or kMaxRequests. Thread: one
/// request at a time.
class Compiler {
 public:
  static constexpr int kMaxRequests = 2000;
  using Ask = std::function<Result<Answer>(const Request& request, double limit_s)>;
  Compiler();
  /// Of no process of its own: each request goes to `ask`, which has a pool of them.
  explicit Compiler(Ask ask);
  Compiler(Compiler&&) noexcept;
  Compiler& operator=(Compiler&&) noexcept;
  ~Compiler();

  /// As run_compiler.
  Result<Answer> ask(const Request& request, double limit_s = 120);
  bool running() const;
  /// Polled while a compiler works; when it turns true the compiler is ended and ask() answers interrupted.
  void stop_when(std::function<bool()> cancelled);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace klab::compile
