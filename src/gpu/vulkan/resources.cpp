// SPDX-License-Identifier: Apache-2.0
// Registers, spills and code of a pipeline, where the driver tells (VK_KHR_pipeline_executable_properties).
#include "gpu/vulkan/device.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace klab::gpu::vulkan {
namespace {

struct Value {
  std::string text;
  double number = 0;
};

Value value_of(const VkPipelineExecutableStatisticKHR& s) {
  switch (s.format) {
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR:
      return {s.value.b32 ? "true" : "false", s.value.b32 ? 1.0 : 0.0};
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR:
      return {fmt::format("{}", s.value.i64), static_cast<double>(s.value.i64)};
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR:
      return {fmt::format("{}", s.value.u64), static_cast<double>(s.value.u64)};
    default:
      return {fmt::format("{}", s.value.f64), s.value.f64};
  }
}

// Names as RADV, NVIDIA and ANV spell them.
void take(Resources& out, const std::string& name, double number, std::uint32_t smallest_subgroup,
          std::uint32_t waves_per_simd) {
  const auto n32 = static_cast<std::uint32_t>(std::max(0.0, number));
  const auto n64 = static_cast<std::uint64_t>(std::max(0.0, number));
  if (name == "VGPRs" || name == "Register Count") out.vector_registers = n32;
  if (name == "SGPRs") out.scalar_registers = n32;
  if (name == "Spilled VGPRs" || name == "Spilled SGPRs" || name == "Spill count")
    out.spilled_registers = out.spilled_registers.value_or(0) + n32;
  if (name == "Code size" || name == "Binary Size") out.code_bytes = n64;
  if (name == "LDS size" || name == "Shared Memory Size") out.shared_bytes = n64;
  if (name == "Scratch size" || name == "Scratch Memory Size" || name == "Stack Size" || name == "Local Memory Size")
    out.scratch_bytes = std::max(out.scratch_bytes.value_or(0), n64);
  // RADV counts in its smallest wave (32 lanes on RDNA), whatever size this kernel runs with.
  if (name == "Subgroups per SIMD" && waves_per_simd != 0 && smallest_subgroup != 0)
    out.occupancy = std::min(1.0, number / (waves_per_simd * 64.0 / smallest_subgroup));
}

bool is_assembly(const char* name) {
  std::string lower = name;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower.find("assembly") != std::string::npos || lower.find("sass") != std::string::npos;
}

}  // namespace

Result<Resources> VulkanDevice::resources(LaunchId id) {
  KLAB_TRY_VOID(check_alive());
  const auto found = launches_.find(id);
  if (found == launches_.end()) return fail(ErrorCode::internal, fmt::format("no launch {}", id));
  const Launch& launch = found->second;
  Resources out;
  out.shared_bytes = launch.shared_bytes;
  if (launch.required_subgroup_size != 0)
    out.subgroup_size = launch.required_subgroup_size;
  else if (abilities_.subgroup_size != 0)
    out.subgroup_size = abilities_.subgroup_size;
  if (!abilities_.executable_statistics) return out;

  // A second pipeline: capturing statistics must not touch the one that is measured.
  KLAB_TRY(const VkPipeline pipeline, make_pipeline(launch, VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR |
                                                      VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR));
  const VkPipelineInfoKHR info{.sType = VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR, .pipeline = pipeline};
  std::uint32_t count = 0;
  call_.GetPipelineExecutablePropertiesKHR(device_, &info, &count, nullptr);
  std::vector<VkPipelineExecutablePropertiesKHR> executables(
      count, {.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR});
  call_.GetPipelineExecutablePropertiesKHR(device_, &info, &count, executables.data());
  for (std::uint32_t e = 0; e < count; ++e) {
    if (!(executables[e].stages & VK_SHADER_STAGE_COMPUTE_BIT)) continue;
    if (executables[e].subgroupSize != 0) out.subgroup_size = executables[e].subgroupSize;
    const VkPipelineExecutableInfoKHR which{.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR,
                                            .pipeline = pipeline,
                                            .executableIndex = e};
    std::uint32_t n = 0;
    call_.GetPipelineExecutableStatisticsKHR(device_, &which, &n, nullptr);
    std::vector<VkPipelineExecutableStatisticKHR> statistics(
        n, {.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR});
    call_.GetPipelineExecutableStatisticsKHR(device_, &which, &n, statistics.data());
    for (std::uint32_t i = 0; i < n; ++i) {
      const Value value = value_of(statistics[i]);
      out.driver.push_back({statistics[i].name, value.text});
      take(out, statistics[i].name, value.number, abilities_.min_subgroup_size, waves_per_simd_);
    }
    n = 0;
    call_.GetPipelineExecutableInternalRepresentationsKHR(device_, &which, &n, nullptr);
    std::vector<VkPipelineExecutableInternalRepresentationKHR> texts(
        n, {.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INTERNAL_REPRESENTATION_KHR});
    call_.GetPipelineExecutableInternalRepresentationsKHR(device_, &which, &n, texts.data());
    std::vector<std::string> storage(n);
    for (std::uint32_t i = 0; i < n; ++i) {
      storage[i].resize(texts[i].dataSize);
      texts[i].pData = storage[i].data();
    }
    call_.GetPipelineExecutableInternalRepresentationsKHR(device_, &which, &n, texts.data());
    for (std::uint32_t i = 0; i < n; ++i)
      if (texts[i].isText && is_assembly(texts[i].name)) out.isa = storage[i].c_str();
  }
  call_.DestroyPipeline(device_, pipeline, nullptr);
  return out;
}

}  // namespace klab::gpu::vulkan
