// SPDX-License-Identifier: Apache-2.0
// Builds by content: the same source, includes, options and compiler are compiled once.
// Not here: which variants exist (session/).
#pragma once
#include "base/error.h"
#include "base/files.h"
#include "compile/client.h"
#include "compile/protocol.h"

namespace klab::compile {

/// As run_compiler, for verb "compile" with an output. When `cache_folder` has the answer, the code object is
/// copied to the output and `cached` is set. An entry holds for as long as every include that was read is
/// unchanged, no include has appeared where one was looked for in vain, and klab-compile (for CUDA: the
/// toolkit too) is the same. Of a CUDA source that only nvcc takes it is remembered that NVRTC need not be
/// tried; a changed preprocessor line makes it be tried again. `warm`: a compiler that stays, used in place
/// of a new process. Failures are not kept. A damaged entry is built again; a cache that cannot be written is
/// no error. Errors: those of run_compiler, and of reading the source. Thread: any; several processes may
/// share a folder.
Result<Answer> compile_cached(const Request& request, const fs::path& cache_folder, double limit_s = 120,
                              Compiler* warm = nullptr);

}  // namespace klab::compile
