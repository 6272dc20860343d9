// SPDX-License-Identifier: Apache-2.0
// The source that a module says it came from: OpSource, OpLine, and the two debug information sets.
// Not here: everything else that reflect.cpp finds.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <spirv-tools/libspirv.h>

#include "compile/protocol.h"
#include "compile/spirv/constants.h"

namespace klab::compile {

class DebugSource {
 public:
  void string(const spv_parsed_instruction_t& in);
  void source(const spv_parsed_instruction_t& in);
  void source_continued(const spv_parsed_instruction_t& in);
  void line(const spv_parsed_instruction_t& in);
  /// An OpExtInst; what is of another set is passed over.
  void extended(const spv_parsed_instruction_t& in, const Constants& constants);
  /// Fills in source_files, source_text and source_language.
  void finish(Reflection& out);

 private:
  void file(std::uint32_t string_id);
  std::string joined(const std::vector<std::uint32_t>& parts) const;

  std::unordered_map<std::uint32_t, std::string> strings_;
  std::unordered_set<std::uint32_t> seen_ids_;
  std::unordered_set<std::string> seen_names_;
  std::vector<std::string> files_;
  std::string language_, text_;
  bool open_ = false;  // OpSourceContinued adds to text_
  std::map<std::uint32_t, std::vector<std::uint32_t>>
      sources_;  // DebugSource -> its strings: many may share one
  std::uint32_t last_source_ = 0, unit_source_ = 0;
};

}  // namespace klab::compile
