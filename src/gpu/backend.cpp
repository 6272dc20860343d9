// SPDX-License-Identifier: Apache-2.0
// JSON of abilities and resource figures.
#include "gpu/backend.h"

#include <fmt/format.h>

#include "base/json.h"

namespace klab::gpu {
namespace {

template <class T>
void put(Json& j, const char* name, const std::optional<T>& value) {
  if (value) j[name] = *value;
}
template <class T>
void get(const Json& j, const char* name, std::optional<T>& value) {
  if (const auto it = j.find(name); it == j.end() || it->is_null()) return;
  T v{};
  read_optional(j, name, v);
  value = v;
}

}  // namespace

void to_json(Json& j, const Abilities& v) {
  j = Json{{"fixed_addresses", v.fixed_addresses},
           {"fixed_addresses_by", v.fixed_addresses_by},
           {"device_addresses", v.device_addresses},
           {"counters", v.counters},
           {"memory_pools", v.memory_pools},
           {"clock_readout", v.clock_readout},
           {"matrix_units", v.matrix_units},
           {"subgroup_size_control", v.subgroup_size_control},
           {"executable_statistics", v.executable_statistics},
           {"timestamps", v.timestamps},
           {"compute_units", v.compute_units},
           {"subgroup_size", v.subgroup_size},
           {"min_subgroup_size", v.min_subgroup_size},
           {"max_subgroup_size", v.max_subgroup_size},
           {"max_allocation", v.max_allocation},
           {"last_level_cache", v.last_level_cache},
           {"max_grid", v.max_grid},
           {"max_block_threads", v.max_block_threads},
           {"max_shared_bytes", v.max_shared_bytes}};
}

void to_json(Json& j, const Resources& v) {
  j = Json::object();
  put(j, "vector_registers", v.vector_registers);
  put(j, "scalar_registers", v.scalar_registers);
  put(j, "spilled_registers", v.spilled_registers);
  put(j, "scratch_bytes", v.scratch_bytes);
  put(j, "shared_bytes", v.shared_bytes);
  put(j, "code_bytes", v.code_bytes);
  put(j, "subgroup_size", v.subgroup_size);
  put(j, "occupancy", v.occupancy);
  if (!v.driver.empty()) {
    Json& list = j["driver"] = Json::array();
    for (const auto& s : v.driver) list.push_back({{"name", s.name}, {"value", s.value}});
  }
  if (!v.isa.empty()) j["isa"] = v.isa;
}

void from_json(const Json& j, Resources& v) {
  v = {};
  get(j, "vector_registers", v.vector_registers);
  get(j, "scalar_registers", v.scalar_registers);
  get(j, "spilled_registers", v.spilled_registers);
  get(j, "scratch_bytes", v.scratch_bytes);
  get(j, "shared_bytes", v.shared_bytes);
  get(j, "code_bytes", v.code_bytes);
  get(j, "subgroup_size", v.subgroup_size);
  get(j, "occupancy", v.occupancy);
  if (const auto it = j.find("driver"); it != j.end())
    for (const Json& s : *it) {
      Resources::Statistic statistic;
      read_required(s, "name", statistic.name);
      read_required(s, "value", statistic.value);
      v.driver.push_back(std::move(statistic));
    }
  read_optional(j, "isa", v.isa);
}

Result<Placed> Device::symbol(CodeId, std::string_view name, std::uint64_t) {
  return fail(ErrorCode::unsupported,
              fmt::format("{} has no module variables, so {} cannot be restored", identity().api, name));
}

Result<Counters> Device::count(LaunchId, std::span<const Step>, std::span<const std::string>, std::uint64_t) {
  return fail(ErrorCode::unsupported, fmt::format("{}'s driver has no hardware counters that Klab can read", identity().name),
              "leave out --counters");
}

Result<std::vector<Guard>> Device::guards(std::span<const MemoryId>) { return std::vector<Guard>{}; }

std::vector<Device::Variable> Device::variables(CodeId, std::string&) { return {}; }

Result<std::vector<std::string>> Device::entry_points(CodeId) {
  return fail(ErrorCode::unsupported, fmt::format("{} cannot list the kernels of a code object", identity().api));
}

std::vector<std::string> Device::launch_notes(LaunchId) const { return {}; }

}  // namespace klab::gpu
