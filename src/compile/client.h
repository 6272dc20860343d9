// SPDX-License-Identifier: Apache-2.0
// A klab-compile that stays: its compilers are loaded once. Starting one costs 20 ms, and NVRTC's first
// compilation 30 ms more than the next. Not here: what is cached (cache.h).
#pragma once
#include <memory>

#include "compile/protocol.h"

namespace klab::compile {

/// A supervised `klab-compile --serve`. It starts at the first request and is replaced after a crash, a hang,
/// an update of itself or of the CUDA toolkit, a change of the working folder, or kMaxRequests. Thread: one
/// request at a time.
class Compiler {
 public:
  static constexpr int kMaxRequests = 2000;
  Compiler();
  Compiler(Compiler&&) noexcept;
  Compiler& operator=(Compiler&&) noexcept;
  ~Compiler();

  /// As run_compiler.
  Result<Answer> ask(const Request& request, double limit_s = 120);
  bool running() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace klab::compile
