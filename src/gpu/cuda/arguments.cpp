// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/arguments.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace klab::gpu::cuda {
namespace {

enum class Kind { cooperative, priority, cluster_policy, memory_domain, carveout, nvlink, function, dropped };
struct Known {
  std::string_view name;
  Kind kind;
  int id;           // CUlaunchAttributeID or CUfunction_attribute
  const char* why;  // dropped
};

constexpr const char* kAlone =
    "it says how a launch overlaps its neighbours in a stream, and this one runs alone";
constexpr const char* kEvent = "it records an event of the program, which does not exist here";
constexpr const char* kStruct = "its value is more than a number, and the capture has none of it";

constexpr Known kKnown[] = {
    {"cooperative", Kind::cooperative, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, ""},
    {"priority", Kind::priority, CU_LAUNCH_ATTRIBUTE_PRIORITY, ""},
    {"cluster_scheduling_policy_preference", Kind::cluster_policy,
     CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, ""},
    {"mem_sync_domain", Kind::memory_domain, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, ""},
    {"preferred_shared_memory_carveout", Kind::carveout, 14, ""},
    {"nvlink_util_centric_scheduling", Kind::nvlink, 16, ""},
    {"programmatic_stream_serialization", Kind::dropped, 0, kAlone},
    {"programmatic_event", Kind::dropped, 0, kEvent},
    {"launch_completion_event", Kind::dropped, 0, kEvent},
    {"device_updatable_kernel_node", Kind::dropped, 0, "only nodes of a graph have it"},
    {"synchronization_policy", Kind::dropped, 0, "it belongs to the program's stream"},
    {"access_policy_window", Kind::dropped, 0, kStruct},
    {"mem_sync_domain_map", Kind::dropped, 0, kStruct},
    {"preferred_cluster_dimension", Kind::dropped, 0, kStruct},
    {"cluster_dimension", Kind::dropped, 0, "the cluster is part of the launch itself (--cluster)"},
    {"function.max_dynamic_shared_size_bytes", Kind::function,
     CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, ""},
    {"function.preferred_shared_memory_carveout", Kind::function,
     CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, ""},
    {"function.non_portable_cluster_size_allowed", Kind::function,
     CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, ""},
    {"function.cluster_scheduling_policy_preference", Kind::function,
     CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, ""},
    {"function.required_cluster_width", Kind::function, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, ""},
    {"function.required_cluster_height", Kind::function, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT, ""},
    {"function.required_cluster_depth", Kind::function, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH, ""},
};

struct NamedFormat {
  std::string_view name;
  Format format;
};
constexpr NamedFormat kFormats[] = {
    {"unsigned_int8", {CU_AD_FORMAT_UNSIGNED_INT8, 1}},
    {"unsigned_int16", {CU_AD_FORMAT_UNSIGNED_INT16, 2}},
    {"unsigned_int32", {CU_AD_FORMAT_UNSIGNED_INT32, 4}},
    {"signed_int8", {CU_AD_FORMAT_SIGNED_INT8, 1}},
    {"signed_int16", {CU_AD_FORMAT_SIGNED_INT16, 2}},
    {"signed_int32", {CU_AD_FORMAT_SIGNED_INT32, 4}},
    {"half", {CU_AD_FORMAT_HALF, 2}},
    {"float", {CU_AD_FORMAT_FLOAT, 4}},
    {"unorm_int8x1", {CU_AD_FORMAT_UNORM_INT8X1, 1}},
    {"unorm_int8x2", {CU_AD_FORMAT_UNORM_INT8X2, 1}},
    {"unorm_int8x4", {CU_AD_FORMAT_UNORM_INT8X4, 1}},
    {"unorm_int16x1", {CU_AD_FORMAT_UNORM_INT16X1, 2}},
    {"unorm_int16x2", {CU_AD_FORMAT_UNORM_INT16X2, 2}},
    {"unorm_int16x4", {CU_AD_FORMAT_UNORM_INT16X4, 2}},
    {"snorm_int8x1", {CU_AD_FORMAT_SNORM_INT8X1, 1}},
    {"snorm_int8x2", {CU_AD_FORMAT_SNORM_INT8X2, 1}},
    {"snorm_int8x4", {CU_AD_FORMAT_SNORM_INT8X4, 1}},
    {"snorm_int16x1", {CU_AD_FORMAT_SNORM_INT16X1, 2}},
    {"snorm_int16x2", {CU_AD_FORMAT_SNORM_INT16X2, 2}},
    {"snorm_int16x4", {CU_AD_FORMAT_SNORM_INT16X4, 2}},
};

std::size_t replace_between(std::span<std::byte> arguments, std::uint64_t begin, std::uint64_t end,
                            std::uint64_t from, std::uint64_t to) {
  std::size_t count = 0;
  for (std::uint64_t at = (begin + 7) / 8 * 8; at + 8 <= std::min<std::uint64_t>(end, arguments.size());
       at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, arguments.data() + at, 8);
    if (word != from) continue;
    std::memcpy(arguments.data() + at, &to, 8);
    ++count;
  }
  return count;
}

}  // namespace

std::size_t replace_handle(std::span<std::byte> arguments, std::span<const bundle::Argument> layout,
                           std::uint64_t from, std::uint64_t to) {
  if (layout.empty()) return replace_between(arguments, 0, arguments.size(), from, to);
  std::size_t count = 0;
  for (const bundle::Argument& a : layout)
    if (a.size >= 8)
      count += replace_between(arguments, a.offset, std::uint64_t{a.offset} + a.size, from, to);
  return count;
}

AppliedAttribute apply_attribute(const bundle::LaunchAttribute& a) {
  AppliedAttribute out;
  const auto* known =
      std::find_if(std::begin(kKnown), std::end(kKnown), [&](const Known& k) { return k.name == a.name; });
  if (known == std::end(kKnown)) {
    // What a newer driver's header has: the shim names it by its number.
    if (a.name.rfind("attribute_", 0) == 0 || a.name.rfind("function.attribute_", 0) == 0) {
      out.to = AppliedAttribute::To::dropped;
      out.why = "this version of Klab does not know it";
    }
    return out;
  }
  out.to = known->kind == Kind::dropped    ? AppliedAttribute::To::dropped
           : known->kind == Kind::function ? AppliedAttribute::To::function
                                           : AppliedAttribute::To::launch;
  out.why = known->why;
  out.function = static_cast<CUfunction_attribute>(known->id);
  out.launch.id = static_cast<CUlaunchAttributeID>(known->id);
  const int value = static_cast<int>(a.value);
  switch (known->kind) {
    case Kind::cooperative:
      out.launch.value.cooperative = value;
      break;
    case Kind::priority:
      out.launch.value.priority = value;
      break;
    case Kind::cluster_policy:
      out.launch.value.clusterSchedulingPolicyPreference = static_cast<CUclusterSchedulingPolicy>(value);
      break;
    case Kind::memory_domain:
      out.launch.value.memSyncDomain = static_cast<CUlaunchMemSyncDomain>(value);
      break;
    case Kind::carveout:
    case Kind::nvlink:  // both are an unsigned at the start of the union, not in every header
      std::memcpy(out.launch.value.pad, &value, sizeof value);
      break;
    default:
      break;
  }
  return out;
}

std::string attribute_names() {
  std::string names;
  for (const Known& k : kKnown)
    if (k.kind != Kind::dropped) names += fmt::format("{}{}", names.empty() ? "" : ", ", k.name);
  return names;
}

std::optional<Format> array_format(std::string_view name) {
  for (const NamedFormat& f : kFormats)
    if (f.name == name) return f.format;
  return std::nullopt;
}

}  // namespace klab::gpu::cuda
