// SPDX-License-Identifier: Apache-2.0
// What NVRTC, nvcc, its host compiler and ptxas print, as messages with file and line.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compile/protocol.h"
#include "compile/ptx/ptx.h"

namespace klab::compile {

/// Notes and "ptxas info" are left to the log. `ptx_line` answers for an error at a line of intermediate PTX,
/// if it can.
std::vector<Message> parse_cuda_messages(
    std::string_view log, const std::function<std::optional<SourceLine>(std::uint32_t)>& ptx_line = {});

/// compile_failed with the first error's file, line and text, and how many more there are.
Error first_error(const std::vector<Message>& messages, const std::string& source, std::string_view log);

/// Whether the log has an error of ptxas at a line of PTX.
bool names_ptx_line(std::string_view log);

}  // namespace klab::compile
