// SPDX-License-Identifier: Apache-2.0
// GLSL compute shaders to SPIR-V, by shaderc. It can crash on some inputs: klab-compile and tests only.
#pragma once
#include <string>
#include <vector>

#include "base/error.h"
#include "compile/protocol.h"
#include "compile/spirv/module.h"

namespace klab::compile {

struct GlslOutcome {
  std::vector<Message> messages;
  std::string log;
  std::vector<Dependency> dependencies;
  Result<Words> code = fail(ErrorCode::internal, "not compiled");  // compile_failed, usage
};
/// Compiles `text`, which the user calls `name`.
GlslOutcome compile_glsl(const std::string& text, const std::string& name, const Options& options);

/// The compiler's lines "FILE:LINE: error: TEXT", whatever the file is called. Other lines join the message
/// before.
std::vector<Message> parse_messages(std::string_view log);

std::string glsl_version();

}  // namespace klab::compile
