// SPDX-License-Identifier: Apache-2.0
// CUDA requests of klab-compile: which compiler takes a source, and what is said of what it made.
#pragma once
#include "compile/protocol.h"

namespace klab::compile {

/// Languages "cuda", "ptx" and "cubin"; verbs compile, reflect, disassemble. What is wrong is the status;
/// messages, log and facts are in `answer` all the same.
Status serve_cuda(const Request& request, Answer& answer);

/// Compilers and tools of this machine, the missing ones too (verb "tools").
std::vector<Tool> cuda_tools();

/// Signs that a text is a whole program, which NVRTC cannot take: "line 40 launches a kernel (<<<)". Empty:
/// none.
std::string host_code_reason(std::string_view text);

}  // namespace klab::compile
