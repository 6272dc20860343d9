// SPDX-License-Identifier: Apache-2.0
#include "shim/cuda/launch.h"

#include <algorithm>
#include <cstring>

namespace klab::shim {
namespace {

constexpr std::size_t kMaxArguments = 32768;  // bytes; the driver's own limit is 32764

}  // namespace

CUstream Launch::real_stream() const {
  if (stream != nullptr) return stream;
  return per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

std::vector<std::byte> pack_arguments(const Launch& launch, const std::optional<std::vector<Parameter>>& layout,
                                      std::string& why) {
  std::vector<std::byte> bytes;
  if (launch.parameters != nullptr && (!layout || !layout->empty())) {
    if (!layout) {
      why = "the layout of its parameters is not known: neither the driver nor its cubin tells";
      return bytes;
    }
    for (std::size_t i = 0; i < layout->size(); ++i) {
      const Parameter& p = (*layout)[i];
      if (p.offset > kMaxArguments || p.size > kMaxArguments - p.offset) {
        why = "parameter " + std::to_string(i) + " lies " + std::to_string(p.offset) + " bytes in";
        return {};
      }
      if (launch.parameters[i] == nullptr) {
        why = "parameter " + std::to_string(i) + " is a null pointer";
        return {};
      }
      bytes.resize(std::max<std::size_t>(bytes.size(), p.offset + p.size));
      std::memcpy(bytes.data() + p.offset, launch.parameters[i], p.size);
    }
    return bytes;
  }
  if (launch.extra != nullptr) {
    const void* buffer = nullptr;
    std::size_t size = 0;
    for (int i = 0; i < 16 && launch.extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
      if (launch.extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
        buffer = launch.extra[i + 1];
      else if (launch.extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE && launch.extra[i + 1] != nullptr)
        std::memcpy(&size, launch.extra[i + 1], sizeof size);
      else {
        why = "its `extra` array holds an option that is not known here";
        return {};
      }
    }
    if (size > kMaxArguments || (size != 0 && buffer == nullptr)) {
      why = "its packed parameter buffer has " + std::to_string(size) + " bytes";
      return {};
    }
    const auto* from = static_cast<const std::byte*>(buffer);
    if (size != 0) bytes.assign(from, from + size);
    return bytes;
  }
  if (layout && !layout->empty()) why = "it was launched without its parameters";
  return bytes;
}

Attributes read_attributes(const Launch& launch) {
  Attributes all;
  auto leave = [&](const char* name, const char* why) {
    all.left_out.emplace_back(std::string("launch attribute ") + name, why);
  };
  constexpr const char* kOther = "it refers to other work of the program, or to settings of its device";
  if (launch.cooperative) all.set.push_back({"cooperative", 1});
  for (std::uint32_t i = 0; i < launch.attribute_count && i < 64; ++i) {
    const CUlaunchAttribute& a = launch.attributes[i];
    switch (static_cast<int>(a.id)) {
      case CU_LAUNCH_ATTRIBUTE_IGNORE:
        break;
      case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        if (a.value.accessPolicyWindow.num_bytes != 0) leave("access_policy_window", kOther);
        break;
      case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        if (a.value.cooperative != 0 && !launch.cooperative) all.set.push_back({"cooperative", 1});
        break;
      case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
        break;  // of streams
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        all.cluster[0] = a.value.clusterDim.x;
        all.cluster[1] = a.value.clusterDim.y;
        all.cluster[2] = a.value.clusterDim.z;
        break;
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        all.set.push_back({"cluster_scheduling_policy_preference",
                           static_cast<int>(a.value.clusterSchedulingPolicyPreference)});
        break;
      case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
        all.set.push_back({"programmatic_stream_serialization", a.value.programmaticStreamSerializationAllowed});
        break;
      case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
        leave("programmatic_event", kOther);
        break;
      case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        all.set.push_back({"priority", a.value.priority});
        break;
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
        leave("mem_sync_domain_map", kOther);
        break;
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        all.set.push_back({"mem_sync_domain", static_cast<int>(a.value.memSyncDomain)});
        break;
      case 11:  // CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION
        leave("preferred_cluster_dimension", "three numbers; the cluster that was asked for is kept");
        break;
      case 12:  // CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT
        leave("launch_completion_event", kOther);
        break;
      case 13:  // CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE
        leave("device_updatable_kernel_node", kOther);
        break;
      case 14: {  // CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
        unsigned value;
        std::memcpy(&value, &a.value, sizeof value);
        all.set.push_back({"preferred_shared_memory_carveout", static_cast<std::int32_t>(value)});
        break;
      }
      default:
        all.left_out.emplace_back("launch attribute " + std::to_string(static_cast<int>(a.id)),
                                  "it is not known here");
    }
  }
  return all;
}

}  // namespace klab::shim
