// SPDX-License-Identifier: Apache-2.0
#include "compile/spirv/module.h"

#include <cstring>

#include <fmt/format.h>
#include <spirv-tools/libspirv.hpp>
#include <spirv-tools/optimizer.hpp>

namespace klab::compile {
namespace {

constexpr std::uint32_t kMagic = 0x07230203;
constexpr std::size_t kHeaderWords = 5;
constexpr std::size_t kMaxBytes = 256u << 20;

// Judges a module by its own version, apart from any Vulkan rule.
spv_target_env universal(std::span<const std::uint32_t> words) {
  switch (words.size() > 1 ? words[1] : 0) {
    case 0x10000:
      return SPV_ENV_UNIVERSAL_1_0;
    case 0x10100:
      return SPV_ENV_UNIVERSAL_1_1;
    case 0x10200:
      return SPV_ENV_UNIVERSAL_1_2;
    case 0x10300:
      return SPV_ENV_UNIVERSAL_1_3;
    case 0x10400:
      return SPV_ENV_UNIVERSAL_1_4;
    case 0x10500:
      return SPV_ENV_UNIVERSAL_1_5;
    default:
      return SPV_ENV_UNIVERSAL_1_6;
  }
}

spv_target_env environment(const Target& target) {
  spv_target_env env = SPV_ENV_UNIVERSAL_1_6;
  (void)spvParseVulkanEnv(target.vulkan, target.spirv, &env);
  return env;
}

struct Collect {
  std::vector<Message>& messages;
  std::string file;
  void operator()(spv_message_level_t level, const char*, const spv_position_t& at, const char* text) const {
    if (level == SPV_MSG_DEBUG) return;
    Message m;
    m.severity = level <= SPV_MSG_ERROR     ? Severity::error
                 : level == SPV_MSG_WARNING ? Severity::warning
                                            : Severity::note;
    m.file = file;
    m.line = static_cast<std::uint32_t>(at.line);
    m.text = text != nullptr ? text : "";
    messages.push_back(std::move(m));
  }
};

}  // namespace

Result<Target> parse_target(std::string_view text) {
  const auto bad = [&] {
    return fail(
        ErrorCode::usage, fmt::format("unknown compile target \"{}\"", text),
        "vulkan1.0, vulkan1.1, vulkan1.2 or vulkan1.3, optionally with a SPIR-V version: vulkan1.2,spv1.5");
  };
  const auto comma = text.find(',');
  const std::string_view vulkan = text.substr(0, comma);
  if (vulkan.size() != 9 || !vulkan.starts_with("vulkan1.") || vulkan[8] < '0' || vulkan[8] > '3')
    return bad();
  const std::uint32_t minor = static_cast<std::uint32_t>(vulkan[8] - '0');
  static constexpr std::uint32_t kHighest[] = {0x10000, 0x10300, 0x10500, 0x10600};
  Target target{(1u << 22) | (minor << 12), kHighest[minor]};
  if (comma == std::string_view::npos) return target;
  const std::string_view spirv = text.substr(comma + 1);
  if (spirv.size() != 6 || !spirv.starts_with("spv1.") || spirv[5] < '0' || spirv[5] > '6') return bad();
  target.spirv = 0x10000u | (static_cast<std::uint32_t>(spirv[5] - '0') << 8);
  spv_target_env env;  // the least one that has both
  if (!spvParseVulkanEnv(target.vulkan, target.spirv, &env))
    return fail(ErrorCode::usage, fmt::format("{} cannot take {}", vulkan, spirv),
                "a newer vulkan1.N takes newer SPIR-V");
  return target;
}

Result<Words> words_of(std::string_view bytes) {
  if (bytes.size() % 4 != 0 || bytes.size() < kHeaderWords * 4)
    return fail(ErrorCode::invalid_data, fmt::format("{} bytes are no SPIR-V module", bytes.size()),
                "give a .spv file, or text assembly as .spvasm");
  if (bytes.size() > kMaxBytes)
    return fail(ErrorCode::cap_reached,
                fmt::format("a SPIR-V module of {} bytes; at most {} are read", bytes.size(), kMaxBytes));
  Words words(bytes.size() / 4);
  std::memcpy(words.data(), bytes.data(), bytes.size());
  if (words[0] == __builtin_bswap32(kMagic))
    for (std::uint32_t& w : words) w = __builtin_bswap32(w);
  if (words[0] != kMagic)
    return fail(ErrorCode::invalid_data, fmt::format("no SPIR-V: the first word is {:#010x}", words[0]),
                "give a .spv file, or text assembly as .spvasm");
  return words;
}

Status validate(std::span<const std::uint32_t> words, const Target& target, const std::string& file,
                std::vector<Message>& messages) {
  spvtools::SpirvTools tools(environment(target));
  const std::size_t before = messages.size();
  tools.SetMessageConsumer(Collect{messages, file});
  spvtools::ValidatorOptions options;
  if (tools.Validate(words.data(), words.size(), options)) return {};
  return fail(
      ErrorCode::compile_failed,
      fmt::format("{} is not valid SPIR-V for {}: {}", file, spvTargetEnvDescription(environment(target)),
                  messages.size() > before ? messages.back().text : "no reason given"),
      "a newer --target allows more");
}

Result<Words> assemble(std::string_view text, const Target& target, const std::string& file,
                       std::vector<Message>& messages) {
  spvtools::SpirvTools tools(environment(target));
  tools.SetMessageConsumer(
      [&](spv_message_level_t level, const char* source, const spv_position_t& at, const char* what) {
        spv_position_t from_one = at;
        ++from_one.line;  // text positions count from 0
        Collect{messages, file}(level, source, from_one, what);
      });
  Words words;
  if (tools.Assemble(text.data(), text.size(), &words, SPV_TEXT_TO_BINARY_OPTION_PRESERVE_NUMERIC_IDS))
    return words;
  if (messages.empty()) return fail(ErrorCode::compile_failed, file + ": does not assemble");
  const Message& m = messages.back();
  return fail(ErrorCode::compile_failed, fmt::format("{}:{}: {}", m.file, m.line, m.text));
}

Result<std::string> disassemble(std::span<const std::uint32_t> words) {
  std::vector<Message> messages;
  spvtools::SpirvTools tools(universal(words));
  tools.SetMessageConsumer(Collect{messages, ""});
  std::string text;
  if (tools.Disassemble(words.data(), words.size(), &text,
                        SPV_BINARY_TO_TEXT_OPTION_INDENT | SPV_BINARY_TO_TEXT_OPTION_FRIENDLY_NAMES))
    return text;
  return fail(ErrorCode::invalid_data,
              messages.empty() ? "the module does not decode" : messages.back().text);
}

Result<Words> strip(std::span<const std::uint32_t> words) {
  std::vector<Message> messages;
  spvtools::Optimizer optimizer(universal(words));
  optimizer.SetMessageConsumer(Collect{messages, ""});
  optimizer.RegisterPass(spvtools::CreateStripDebugInfoPass());
  optimizer.RegisterPass(spvtools::CreateStripNonSemanticInfoPass());
  optimizer.RegisterPass(spvtools::CreateCompactIdsPass());
  Words out;
  spvtools::OptimizerOptions options;
  options.set_run_validator(true);  // the optimiser trusts what it is given
  if (!optimizer.Run(words.data(), words.size(), &out, options) || out.size() < kHeaderWords)
    return fail(ErrorCode::invalid_data,
                messages.empty() ? "the module does not validate" : messages.back().text);
  out[2] = 0;  // generator
  return out;
}

std::string tools_version() { return fmt::format("SPIRV-Tools {}", spvSoftwareVersionString()); }

}  // namespace klab::compile
