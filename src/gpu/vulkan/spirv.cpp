// SPDX-License-Identifier: Apache-2.0
// Validation through SPIRV-Tools, and one pass over the parsed instructions.
#include "gpu/vulkan/spirv.h"

#include <spirv-tools/libspirv.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spirv/unified1/spirv.hpp>

#include "gpu/vulkan/vk.h"

namespace klab::gpu::vulkan {
namespace {

constexpr std::size_t kMaxCode = 256u << 20;

std::string trim_newline(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

spv_target_env environment_of(std::uint32_t api_version) {
  if (api_version >= VK_API_VERSION_1_3) return SPV_ENV_VULKAN_1_3;
  if (api_version >= VK_API_VERSION_1_2) return SPV_ENV_VULKAN_1_2;
  return SPV_ENV_VULKAN_1_1_SPIRV_1_4;
}

Status validate(std::span<const std::uint32_t> words, std::uint32_t api_version) {
  std::unique_ptr<spv_context_t, decltype(&spvContextDestroy)> context(spvContextCreate(environment_of(api_version)),
                                                                       spvContextDestroy);
  std::unique_ptr<spv_validator_options_t, decltype(&spvValidatorOptionsDestroy)> options(spvValidatorOptionsCreate(),
                                                                                          spvValidatorOptionsDestroy);
  // All layouts that some device feature allows: a captured shader was good for its own device.
  spvValidatorOptionsSetRelaxBlockLayout(options.get(), true);
  spvValidatorOptionsSetUniformBufferStandardLayout(options.get(), true);
  spvValidatorOptionsSetScalarBlockLayout(options.get(), true);
  spvValidatorOptionsSetWorkgroupScalarBlockLayout(options.get(), true);
  spvValidatorOptionsSetAllowLocalSizeId(options.get(), true);
  spv_const_binary_t binary{words.data(), words.size()};
  spv_diagnostic diagnostic = nullptr;
  const spv_result_t result = spvValidateWithOptions(context.get(), options.get(), &binary, &diagnostic);
  std::string message = diagnostic != nullptr && diagnostic->error != nullptr ? diagnostic->error : "";
  spvDiagnosticDestroy(diagnostic);
  if (result != SPV_SUCCESS)
    return fail(ErrorCode::invalid_data, fmt::format("the SPIR-V is not valid: {}", trim_newline(message)),
                "run spirv-val on it; the driver was not given it", result);
  return {};
}

}  // namespace

struct Module::Parser {
  Module& module;
  std::uint32_t function = 0;

  static spv_result_t on_header(void*, spv_endianness_t, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t,
                                std::uint32_t) {
    return SPV_SUCCESS;
  }
  static spv_result_t on_instruction(void* self, const spv_parsed_instruction_t* instruction) {
    static_cast<Parser*>(self)->take(*instruction);
    return SPV_SUCCESS;
  }

  static std::vector<std::uint32_t> words_from(const spv_parsed_instruction_t& i, std::size_t first) {
    return first >= i.num_words ? std::vector<std::uint32_t>{}
                                : std::vector<std::uint32_t>(i.words + first, i.words + i.num_words);
  }

  void decorate(Decorations& d, const std::uint32_t* word, std::size_t count) {
    const std::uint32_t argument = count > 1 ? word[1] : 0;
    switch (word[0]) {
      case spv::DecorationDescriptorSet: d.set = argument; break;
      case spv::DecorationBinding: d.binding = argument; break;
      case spv::DecorationSpecId: d.spec_id = argument; break;
      case spv::DecorationArrayStride: d.array_stride = argument; break;
      case spv::DecorationBuiltIn: d.workgroup_size |= argument == spv::BuiltInWorkgroupSize; break;
      default: break;
    }
  }

  void take(const spv_parsed_instruction_t& i) {
    const std::uint32_t* w = i.words;
    switch (i.opcode) {
      case spv::OpCapability:
        module.capabilities_.push_back(w[1]);
        break;
      case spv::OpEntryPoint: {
        const char* name = reinterpret_cast<const char*>(w + 3);
        module.entries_.push_back({std::string(name, strnlen(name, (i.num_words - 3) * sizeof(std::uint32_t))), w[2],
                                   w[1] == spv::ExecutionModelGLCompute});
        break;
      }
      case spv::OpExecutionMode:
        if (w[2] == spv::ExecutionModeLocalSize) module.local_size_[w[1]] = words_from(i, 3);
        break;
      case spv::OpExecutionModeId:
        if (w[2] == spv::ExecutionModeLocalSizeId) module.local_size_id_[w[1]] = words_from(i, 3);
        break;
      case spv::OpDecorate:
        decorate(module.decorations_[w[1]], w + 2, i.num_words - 2u);
        break;
      case spv::OpMemberDecorate:
        if (w[3] == spv::DecorationOffset && i.num_words > 4) module.decorations_[w[1]].member_offset[w[2]] = w[4];
        break;
      case spv::OpFunction:
        function = i.result_id;
        module.functions_[function];
        break;
      case spv::OpFunctionEnd:
        function = 0;
        break;
      default:
        break;
    }
    if (function != 0) {
      Function& f = module.functions_[function];
      if (i.opcode == spv::OpFunctionCall) f.calls.push_back(w[3]);
      for (std::uint16_t k = 0; k < i.num_operands; ++k)
        if (i.operands[k].type == SPV_OPERAND_TYPE_ID) f.ids.push_back(w[i.operands[k].offset]);
    } else if (i.result_id != 0) {
      module.definitions_[i.result_id] = {i.opcode, i.type_id, words_from(i, i.type_id != 0 ? 3 : 2)};
    }
  }
};

Result<Module> Module::read(std::span<const std::byte> bytes, std::uint32_t api_version) {
  if (bytes.empty() || bytes.size() % 4 != 0)
    return fail(ErrorCode::invalid_data, fmt::format("{} bytes are not SPIR-V: not a multiple of 4", bytes.size()));
  if (bytes.size() > kMaxCode)
    return fail(ErrorCode::invalid_data, fmt::format("{} bytes of SPIR-V are over the cap of {}", bytes.size(), kMaxCode));
  Module module;
  module.words_.resize(bytes.size() / 4);
  std::memcpy(module.words_.data(), bytes.data(), bytes.size());
  if (module.words_[0] != spv::MagicNumber)
    return fail(ErrorCode::invalid_data, fmt::format("not SPIR-V: it starts with {:#010x}", module.words_[0]));
  KLAB_TRY_VOID(validate(module.words_, api_version));

  std::unique_ptr<spv_context_t, decltype(&spvContextDestroy)> context(spvContextCreate(environment_of(api_version)),
                                                                       spvContextDestroy);
  Parser parser{module};
  spv_diagnostic diagnostic = nullptr;
  const spv_result_t parsed = spvBinaryParse(context.get(), &parser, module.words_.data(), module.words_.size(),
                                             Parser::on_header, Parser::on_instruction, &diagnostic);
  spvDiagnosticDestroy(diagnostic);
  if (parsed != SPV_SUCCESS) return fail(ErrorCode::invalid_data, "the SPIR-V does not parse");
  return module;
}

bool Module::asks_length() const {
  constexpr std::uint32_t kArrayLength = 68;  // OpArrayLength, SPIR-V specification 3.42.8
  for (std::size_t at = 5; at < words_.size();) {
    const std::uint32_t count = words_[at] >> 16;
    if ((words_[at] & 0xffff) == kArrayLength) return true;
    if (count == 0) break;  // the validator has seen it: cannot be
    at += count;
  }
  return false;
}

std::vector<std::string> Module::entry_points() const {
  std::vector<std::string> names;
  for (const auto& e : entries_)
    if (e.compute) names.push_back(e.name);
  return names;
}

std::optional<std::uint32_t> Module::spec_constant_size(std::uint32_t id) const {
  for (const auto& [result, decoration] : decorations_) {
    if (decoration.spec_id != id) continue;
    const auto found = definitions_.find(result);
    if (found == definitions_.end()) continue;
    const std::uint32_t op = found->second.opcode;
    if (op == spv::OpSpecConstantTrue || op == spv::OpSpecConstantFalse) return 4;
    if (op != spv::OpSpecConstant) continue;
    if (auto size = size_of(found->second.type, {})) return static_cast<std::uint32_t>(*size);
  }
  return std::nullopt;
}

// Integers only; anything else is empty, and then a check is left to the driver.
std::optional<std::uint64_t> Module::value(std::uint32_t id, const Constants& constants, int depth) const {
  const auto found = definitions_.find(id);
  if (found == definitions_.end() || depth > 32) return std::nullopt;
  const Definition& d = found->second;
  if (d.opcode == spv::OpConstantTrue) return 1;
  if (d.opcode == spv::OpConstantFalse) return 0;
  const bool is_bool = d.opcode == spv::OpSpecConstantTrue || d.opcode == spv::OpSpecConstantFalse;
  if (d.opcode == spv::OpConstant || d.opcode == spv::OpSpecConstant || is_bool) {
    if (const auto decoration = decorations_.find(id); decoration != decorations_.end() && decoration->second.spec_id)
      if (const auto given = constants.find(*decoration->second.spec_id); given != constants.end()) return given->second;
    if (is_bool) return d.opcode == spv::OpSpecConstantTrue;
    if (d.operands.empty()) return std::nullopt;
    return d.operands[0] | (d.operands.size() > 1 ? std::uint64_t{d.operands[1]} << 32 : 0);
  }
  if (d.opcode != spv::OpSpecConstantOp || d.operands.size() < 3) return std::nullopt;
  const auto a = value(d.operands[1], constants, depth + 1), b = value(d.operands[2], constants, depth + 1);
  if (!a || !b) return std::nullopt;
  const auto x = static_cast<std::uint32_t>(*a), y = static_cast<std::uint32_t>(*b);
  switch (d.operands[0]) {
    case spv::OpIAdd: return x + y;
    case spv::OpISub: return x - y;
    case spv::OpIMul: return x * y;
    case spv::OpUDiv: return y != 0 ? std::optional<std::uint64_t>(x / y) : std::nullopt;
    case spv::OpUMod: return y != 0 ? std::optional<std::uint64_t>(x % y) : std::nullopt;
    case spv::OpShiftLeftLogical: return y < 32 ? x << y : 0;
    case spv::OpShiftRightLogical: return y < 32 ? x >> y : 0;
    case spv::OpBitwiseAnd: return x & y;
    case spv::OpBitwiseOr: return x | y;
    case spv::OpSelect:
      if (d.operands.size() > 3) return x != 0 ? b : value(d.operands[3], constants, depth + 1);
      return std::nullopt;
    default: return std::nullopt;
  }
}

std::optional<std::uint64_t> Module::size_of(std::uint32_t type, const Constants& constants, int depth) const {
  const auto found = definitions_.find(type);
  if (found == definitions_.end() || depth > 32) return std::nullopt;
  const Definition& d = found->second;
  switch (d.opcode) {
    case spv::OpTypeBool: return 4;
    case spv::OpTypeInt:
    case spv::OpTypeFloat: return d.operands[0] / 8;
    case spv::OpTypeVector:
    case spv::OpTypeMatrix: {
      const auto element = size_of(d.operands[0], constants, depth + 1);
      return element ? std::optional(*element * d.operands[1]) : std::nullopt;
    }
    case spv::OpTypePointer: return 8;
    case spv::OpTypeRuntimeArray: return 0;
    case spv::OpTypeArray: {
      auto element = size_of(d.operands[0], constants, depth + 1);
      const auto length = value(d.operands[1], constants);
      if (const auto it = decorations_.find(type); it != decorations_.end() && it->second.array_stride)
        element = it->second.array_stride;
      if (!element || !length || *length > (1ull << 32)) return std::nullopt;
      return *element * *length;
    }
    case spv::OpTypeStruct: return struct_size(type, constants, depth);
    default: return std::nullopt;
  }
}

std::optional<std::uint64_t> Module::struct_size(std::uint32_t type, const Constants& constants, int depth) const {
  const Definition& d = definitions_.at(type);
  const auto decoration = decorations_.find(type);
  std::uint64_t end = 0;
  for (std::uint32_t member = 0; member < d.operands.size(); ++member) {
    const auto size = size_of(d.operands[member], constants, depth + 1);
    if (!size) return std::nullopt;
    std::uint64_t start = end;
    if (decoration != decorations_.end())
      if (const auto offset = decoration->second.member_offset.find(member);
          offset != decoration->second.member_offset.end())
        start = offset->second;
    end = std::max(end, start + *size);
  }
  return end;
}

Result<EntryInterface> Module::entry(const std::string& name, std::span<const bundle::SpecConstant> given) const {
  const auto entry = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const EntryPoint& e) { return e.compute && e.name == name; });
  if (entry == entries_.end())
    return fail(ErrorCode::missing_symbol,
                fmt::format("the SPIR-V has no compute entry point \"{}\"; it has: {}", name,
                            entry_points().empty() ? "none" : fmt::format("{}", fmt::join(entry_points(), ", "))),
                "name one of those as the entry point");
  Constants constants;
  for (const auto& c : given) {
    std::uint64_t v = 0;
    std::memcpy(&v, c.value.data(), std::min<std::size_t>(8, c.value.size()));
    constants[c.id] = v;
  }

  std::set<std::uint32_t> reached, ids;
  std::vector<std::uint32_t> todo{entry->function};
  while (!todo.empty()) {
    const std::uint32_t function = todo.back();
    todo.pop_back();
    if (!reached.insert(function).second) continue;
    const auto found = functions_.find(function);
    if (found == functions_.end()) continue;
    ids.insert(found->second.ids.begin(), found->second.ids.end());
    todo.insert(todo.end(), found->second.calls.begin(), found->second.calls.end());
  }

  EntryInterface out;
  out.shared_bytes = 0;
  for (const std::uint32_t id : ids) {
    const auto variable = definitions_.find(id);
    if (variable == definitions_.end() || variable->second.opcode != spv::OpVariable) continue;
    const auto pointer = definitions_.find(variable->second.type);
    if (pointer == definitions_.end() || pointer->second.operands.size() < 2) continue;
    const std::uint32_t pointee = pointer->second.operands[1];
    switch (variable->second.operands[0]) {
      case spv::StorageClassWorkgroup:
        if (const auto size = size_of(pointee, constants); size && out.shared_bytes)
          *out.shared_bytes += *size;
        else
          out.shared_bytes.reset();
        break;
      case spv::StorageClassPushConstant:
        out.push_bytes = std::max(out.push_bytes, size_of(pointee, constants).value_or(0));
        break;
      case spv::StorageClassStorageBuffer:
      case spv::StorageClassUniform:
      case spv::StorageClassUniformConstant:
        if (const auto d = decorations_.find(id); d != decorations_.end() && d->second.binding)
          out.uses.push_back({d->second.set.value_or(0), *d->second.binding});
        break;
      default:
        break;
    }
  }

  // The WorkgroupSize builtin wins over the execution modes.
  std::vector<std::uint32_t> size_ids;
  for (const auto& [id, decoration] : decorations_)
    if (decoration.workgroup_size)
      if (const auto d = definitions_.find(id); d != definitions_.end()) size_ids = d->second.operands;
  if (size_ids.empty())
    if (const auto it = local_size_id_.find(entry->function); it != local_size_id_.end()) size_ids = it->second;
  if (size_ids.size() == 3) {
    bundle::Dim3 block{};
    bool known = true;
    for (int k = 0; k < 3; ++k) {
      const auto v = value(size_ids[k], constants);
      known &= v.has_value();
      block[k] = static_cast<std::uint32_t>(v.value_or(0));
    }
    if (known) out.block = block;
  } else if (const auto it = local_size_.find(entry->function); it != local_size_.end() && it->second.size() == 3) {
    out.block = bundle::Dim3{it->second[0], it->second[1], it->second[2]};
  }
  return out;
}

}  // namespace klab::gpu::vulkan
