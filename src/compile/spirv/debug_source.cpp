// SPDX-License-Identifier: Apache-2.0
#include "compile/spirv/debug_source.h"

#include <spirv/unified1/NonSemanticShaderDebugInfo100.h>

#include "compile/spirv/operands.h"

namespace klab::compile {
namespace {

constexpr std::size_t kMaxText = 64u << 20;
constexpr std::size_t kMaxFiles = 10'000;
constexpr std::size_t kMaxParts = 65'536;

const char* language_name(std::uint32_t code) {
  static constexpr const char* kNames[] = {"",     "ESSL",           "GLSL", "OpenCL C", "OpenCL C++",
                                           "HLSL", "C++ for OpenCL", "SYCL", "HERO C",   "NZSL",
                                           "WGSL", "Slang",          "Zig"};
  return code < std::size(kNames) ? kNames[code] : "";
}

}  // namespace

void DebugSource::string(const spv_parsed_instruction_t& in) { strings_[in.result_id] = text(in, 1); }

void DebugSource::file(std::uint32_t id) {
  if (!seen_ids_.insert(id).second || files_.size() >= kMaxFiles) return;
  const auto it = strings_.find(id);
  if (it != strings_.end() && !it->second.empty() && seen_names_.insert(it->second).second)
    files_.push_back(it->second);
}

void DebugSource::source(const spv_parsed_instruction_t& in) {
  if (language_.empty()) language_ = language_name(word(in, 0));
  if (in.num_operands > 2) file(word(in, 2));
  // With includes there is one OpSource per file; the first is the file that was compiled.
  open_ = text_.empty() && in.num_operands > 3;
  if (open_) text_ = text(in, 3);
}

void DebugSource::source_continued(const spv_parsed_instruction_t& in) {
  if (!open_) return;
  const std::string more = text(in, 0);
  if (text_.size() + more.size() <= kMaxText) text_ += more;
}

void DebugSource::line(const spv_parsed_instruction_t& in) { file(word(in, 0)); }

void DebugSource::extended(const spv_parsed_instruction_t& in, const Constants& constants) {
  const bool shader = in.ext_inst_type == SPV_EXT_INST_TYPE_NONSEMANTIC_SHADER_DEBUGINFO_100;
  if (!shader && in.ext_inst_type != SPV_EXT_INST_TYPE_OPENCL_DEBUGINFO_100) return;
  // Operands: result type, result id, set, instruction, then its own; the first numbers are the same in both
  // sets.
  switch (word(in, 3)) {
    case NonSemanticShaderDebugInfo100DebugSource:
      file(word(in, 4));
      last_source_ = in.result_id;
      if (in.num_operands > 5) sources_[in.result_id].push_back(word(in, 5));
      break;
    case NonSemanticShaderDebugInfo100DebugSourceContinued:
      if (const auto it = sources_.find(last_source_);
          shader && it != sources_.end() && it->second.size() < kMaxParts)
        it->second.push_back(word(in, 4));
      break;
    case NonSemanticShaderDebugInfo100DebugCompilationUnit:
      if (unit_source_ == 0) unit_source_ = word(in, 6);
      if (const auto code = constants.unsigned_of(word(in, 7)); shader && code && language_.empty())
        language_ = language_name(static_cast<std::uint32_t>(*code));
      break;
    default:
      break;
  }
}

std::string DebugSource::joined(const std::vector<std::uint32_t>& parts) const {
  std::string out;
  for (const std::uint32_t part : parts)
    if (const auto it = strings_.find(part);
        it != strings_.end() && out.size() + it->second.size() <= kMaxText)
      out += it->second;
  return out;
}

void DebugSource::finish(Reflection& out) {
  auto chosen = sources_.find(unit_source_);
  if (chosen == sources_.end()) chosen = sources_.begin();
  if (chosen != sources_.end())
    if (std::string text = joined(chosen->second); !text.empty()) text_ = std::move(text);
  out.source_files = std::move(files_);
  out.source_text = std::move(text_);
  out.source_language = std::move(language_);
}

}  // namespace klab::compile
