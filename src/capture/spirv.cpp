// SPDX-License-Identifier: Apache-2.0
#include "capture/spirv.h"

#include <cstring>
#include <map>

#include <spirv-tools/libspirv.h>
#include <spirv/unified1/spirv.h>

namespace klab::capture {
namespace {

struct Reading {
  std::string_view entry;
  std::map<std::uint32_t, std::uint32_t> by_spec_id;  // SpecId -> value
  std::uint32_t function = 0;
  std::map<std::uint32_t, std::array<std::uint32_t, 3>> local_size, local_size_id;  // by function
  std::map<std::uint32_t, std::uint32_t> spec_ids;                                  // result id -> SpecId
  std::map<std::uint32_t, std::uint32_t> constants;
  std::map<std::uint32_t, std::array<std::uint32_t, 3>> composites;
  std::uint32_t workgroup = 0;  // the constant that is decorated BuiltIn WorkgroupSize
};

spv_result_t instruction(void* context, const spv_parsed_instruction_t* i) {
  auto& r = *static_cast<Reading*>(context);
  const std::uint32_t* w = i->words;
  const std::uint16_t n = i->num_words;
  switch (i->opcode) {
    case SpvOpEntryPoint: {
      const char* name = reinterpret_cast<const char*>(w + 3);
      if (n > 3 && w[1] == SpvExecutionModelGLCompute &&
          std::string_view(name, ::strnlen(name, (n - 3) * 4u)) == r.entry)
        r.function = w[2];
      break;
    }
    case SpvOpExecutionMode:
      if (n >= 6 && w[2] == SpvExecutionModeLocalSize) r.local_size[w[1]] = {w[3], w[4], w[5]};
      break;
    case SpvOpExecutionModeId:
      if (n >= 6 && w[2] == SpvExecutionModeLocalSizeId) r.local_size_id[w[1]] = {w[3], w[4], w[5]};
      break;
    case SpvOpDecorate:
      if (n >= 4 && w[2] == SpvDecorationSpecId) r.spec_ids[w[1]] = w[3];
      if (n >= 4 && w[2] == SpvDecorationBuiltIn && w[3] == SpvBuiltInWorkgroupSize) r.workgroup = w[1];
      break;
    case SpvOpConstant:
      if (n == 4) r.constants[w[2]] = w[3];
      break;
    case SpvOpSpecConstant:
      if (n == 4) {
        std::uint32_t value = w[3];
        if (const auto id = r.spec_ids.find(w[2]); id != r.spec_ids.end())
          if (const auto given = r.by_spec_id.find(id->second); given != r.by_spec_id.end())
            value = given->second;
        r.constants[w[2]] = value;
      }
      break;
    case SpvOpConstantComposite:
    case SpvOpSpecConstantComposite:
      if (n == 6) r.composites[w[2]] = {w[3], w[4], w[5]};
      break;
    case SpvOpFunction:
      return SPV_REQUESTED_TERMINATION;  // all that is looked for comes before
    default:
      break;
  }
  return SPV_SUCCESS;
}

}  // namespace

bundle::Dim3 workgroup_size(std::span<const std::byte> code, std::string_view entry,
                            const std::vector<bundle::SpecConstant>& spec) {
  std::vector<std::uint32_t> words(code.size() / 4);
  if (words.size() < 5 || code.size() % 4 != 0) return {0, 0, 0};
  std::memcpy(words.data(), code.data(), code.size());
  Reading r;
  r.entry = entry;
  for (const bundle::SpecConstant& s : spec) {
    std::uint32_t value = 0;
    std::memcpy(&value, s.value.data(), std::min<std::size_t>(s.value.size(), 4));
    r.by_spec_id[s.id] = value;
  }
  spv_context context = spvContextCreate(SPV_ENV_UNIVERSAL_1_6);
  const spv_result_t result =
      spvBinaryParse(context, &r, words.data(), words.size(), nullptr, instruction, nullptr);
  spvContextDestroy(context);
  if ((result != SPV_SUCCESS && result != SPV_REQUESTED_TERMINATION) || r.function == 0) return {0, 0, 0};
  auto resolve = [&](const std::array<std::uint32_t, 3>& ids) -> bundle::Dim3 {
    bundle::Dim3 size{0, 0, 0};
    for (std::size_t k = 0; k < 3; ++k) {
      const auto it = r.constants.find(ids[k]);
      if (it == r.constants.end()) return {0, 0, 0};
      size[k] = it->second;
    }
    return size;
  };
  // The built-in constant overrides the execution mode.
  if (r.workgroup != 0) {
    const auto it = r.composites.find(r.workgroup);
    return it != r.composites.end() ? resolve(it->second) : bundle::Dim3{0, 0, 0};
  }
  if (const auto it = r.local_size_id.find(r.function); it != r.local_size_id.end())
    return resolve(it->second);
  if (const auto it = r.local_size.find(r.function); it != r.local_size.end()) return it->second;
  return {0, 0, 0};
}

}  // namespace klab::capture
