// SPDX-License-Identifier: Apache-2.0
// JSON of the worker protocol. Members keep their names: they are also what `--json` prints.
#include "replay/protocol.h"

namespace klab::replay {

void to_json(Json& j, const Conditions& v) {
  j = Json{{"mode", v.mode}, {"iterations", v.iterations}, {"cache", v.cache}, {"flush_mb", v.flush_mb}};
  if (v.mode == Mode::repeats) j["repeats"] = v.repeats;
  if (!v.memory.empty()) j["memory"] = v.memory;
}
void from_json(const Json& j, Conditions& v) {
  read_optional(j, "mode", v.mode);
  read_optional(j, "iterations", v.iterations);
  read_optional(j, "repeats", v.repeats);
  read_optional(j, "cache", v.cache);
  read_optional(j, "memory", v.memory);
  read_optional(j, "flush_mb", v.flush_mb);
}

bool LaunchOverride::empty() const {
  return !grid && spec_constants.empty() && push_constants.empty() && !subgroup_size &&
         !dynamic_shared_bytes && !entry_point && !block && !cluster && attributes.empty();
}

namespace {
// JSON keys are strings, so numbered members are written as {"3": "00ff"}.
template <class T>
Json numbered(const std::map<std::uint32_t, T>& values) {
  Json j = Json::object();
  for (const auto& [number, value] : values) j[std::to_string(number)] = value;
  return j;
}
template <class T>
void read_numbered(const Json& j, const char* name, std::map<std::uint32_t, T>& values) {
  const auto it = j.find(name);
  if (it == j.end()) return;
  for (const auto& [key, value] : it->items()) {
    std::size_t used = 0;
    const unsigned long number = std::stoul(key, &used);
    if (used != key.size() || number > 0xffffffffu) throw std::runtime_error(key + " is not a 32-bit number");
    values[static_cast<std::uint32_t>(number)] = value.template get<T>();
  }
}
template <class T>
void read_optional_value(const Json& j, const char* name, std::optional<T>& out) {
  if (!j.contains(name) || j[name].is_null()) return;
  T value{};
  read_optional(j, name, value);
  out = value;
}
template <class T>
void write_optional(Json& j, const char* name, const std::optional<T>& value) {
  if (value) j[name] = *value;
}
}  // namespace

void to_json(Json& j, const LaunchOverride& v) {
  j = Json::object();
  write_optional(j, "grid", v.grid);
  write_optional(j, "block", v.block);
  write_optional(j, "cluster", v.cluster);
  if (!v.attributes.empty()) j["attributes"] = v.attributes;
  write_optional(j, "subgroup_size", v.subgroup_size);
  write_optional(j, "dynamic_shared_bytes", v.dynamic_shared_bytes);
  write_optional(j, "entry_point", v.entry_point);
  if (!v.spec_constants.empty()) j["spec_constants"] = numbered(v.spec_constants);
  if (!v.push_constants.empty()) j["push_constants"] = numbered(v.push_constants);
}
void from_json(const Json& j, LaunchOverride& v) {
  read_optional_value(j, "grid", v.grid);
  read_optional_value(j, "block", v.block);
  read_optional_value(j, "cluster", v.cluster);
  read_optional(j, "attributes", v.attributes);
  read_optional_value(j, "subgroup_size", v.subgroup_size);
  read_optional_value(j, "dynamic_shared_bytes", v.dynamic_shared_bytes);
  read_optional_value(j, "entry_point", v.entry_point);
  read_numbered(j, "spec_constants", v.spec_constants);
  read_numbered(j, "push_constants", v.push_constants);
}

void to_json(Json& j, const VariantCode& v) {
  j = Json{{"label", v.label}, {"code", v.code}, {"launch", v.launch}};
}
void from_json(const Json& j, VariantCode& v) {
  read_optional(j, "label", v.label);
  read_optional(j, "code", v.code);
  read_optional(j, "launch", v.launch);
}

void to_json(Json& j, const Checks& v) {
  j = Json{{"level", v.level}};
  if (!v.types.empty()) j["types"] = numbered(v.types);
  write_optional(j, "tolerance", v.tolerance);
  if (!v.tolerances.empty()) j["tolerances"] = numbered(v.tolerances);
  if (!v.checker.empty()) j["checker"] = v.checker, j["checker_limit_s"] = v.checker_limit_s;
  if (!v.references.empty()) j["references"] = numbered(v.references);
  if (!v.unseen_launches.empty()) j["unseen_launches"] = v.unseen_launches;
  if (!v.unseen_captures) j["unseen_captures"] = false;
}
void from_json(const Json& j, Checks& v) {
  read_optional(j, "level", v.level);
  read_numbered(j, "types", v.types);
  read_optional_value(j, "tolerance", v.tolerance);
  read_numbered(j, "tolerances", v.tolerances);
  read_optional(j, "checker", v.checker);
  read_optional(j, "checker_limit_s", v.checker_limit_s);
  read_numbered(j, "references", v.references);
  read_optional(j, "unseen_launches", v.unseen_launches);
  read_optional(j, "unseen_captures", v.unseen_captures);
}

void to_json(Json& j, const Comparing::Floor& v) {
  j = Json{{"value", v.value}, {"budget_s", v.budget_s}, {"at", v.at}};
}
void from_json(const Json& j, Comparing::Floor& v) {
  read_optional(j, "value", v.value);
  read_optional(j, "budget_s", v.budget_s);
  read_optional(j, "at", v.at);
}

void to_json(Json& j, const Comparing& v) {
  j = Json{{"measure_s", v.measure_s},   {"margin", v.margin}, {"alpha", v.alpha}, {"identity", v.identity},
           {"placements", v.placements}, {"blocks", v.blocks}, {"letter_ms", v.letter_ms},
           {"floors", v.floors}};
}
void from_json(const Json& j, Comparing& v) {
  read_optional(j, "measure_s", v.measure_s);
  read_optional(j, "margin", v.margin);
  read_optional(j, "alpha", v.alpha);
  read_optional(j, "identity", v.identity);
  read_optional(j, "placements", v.placements);
  read_optional(j, "blocks", v.blocks);
  read_optional(j, "letter_ms", v.letter_ms);
  read_optional(j, "floors", v.floors);
}

void to_json(Json& j, const Request& v) {
  j = Json{{"verb", v.verb},         {"bundle", v.bundle},     {"dispatch", v.dispatch},
           {"device", v.device},     {"variants", v.variants}, {"conditions", v.conditions},
           {"validate", v.validate}, {"seed", v.seed},         {"budget_s", v.budget_s},
           {"checks", v.checks}};
  if (!v.counters.empty()) j["counters"] = v.counters;
  if (v.verb == "compare") j["comparing"] = v.comparing;
}
void from_json(const Json& j, Request& v) {
  read_required(j, "verb", v.verb);
  read_optional(j, "bundle", v.bundle);
  read_optional(j, "dispatch", v.dispatch);
  read_optional(j, "device", v.device);
  read_optional(j, "variants", v.variants);
  read_optional(j, "conditions", v.conditions);
  read_optional(j, "validate", v.validate);
  read_optional(j, "checks", v.checks);
  read_optional(j, "seed", v.seed);
  read_optional(j, "counters", v.counters);
  read_optional(j, "budget_s", v.budget_s);
  read_optional(j, "comparing", v.comparing);
}

namespace {
void to_json(Json& j, const RegionDifference& v) {
  j = Json{{"region", v.region},
           {"name", v.name},
           {"differing_bytes", v.differing_bytes},
           {"first_offset", v.first_offset},
           {"expected", v.expected},
           {"actual", v.actual},
           {"wrong", v.wrong}};
  if (!v.type.empty())
    j.update({{"type", v.type}, {"index", v.index}, {"expected_value", v.expected_value}, {"actual_value", v.actual_value}});
  if (v.values.elements != 0) j["values"] = v.values;
  if (!v.map.is_null()) j["map"] = v.map;
}
void from_json(const Json& j, RegionDifference& v) {
  read_optional(j, "region", v.region);
  read_optional(j, "name", v.name);
  read_optional(j, "differing_bytes", v.differing_bytes);
  read_optional(j, "first_offset", v.first_offset);
  read_optional(j, "expected", v.expected);
  read_optional(j, "actual", v.actual);
  read_optional(j, "wrong", v.wrong);
  read_optional(j, "type", v.type);
  read_optional(j, "index", v.index);
  read_optional(j, "expected_value", v.expected_value);
  read_optional(j, "actual_value", v.actual_value);
  read_optional(j, "values", v.values);
  if (j.contains("map")) v.map = j["map"];
}
}  // namespace

void to_json(Json& j, const Validation& v) {
  Json differences = Json::array();
  for (const RegionDifference& d : v.differences) {
    Json one;
    to_json(one, d);
    differences.push_back(std::move(one));
  }
  j = Json{{"correctness", v.correctness},
           {"reason", v.reason},
           {"level", v.level},
           {"checked_bytes", v.checked_bytes},
           {"differing_bytes", v.differing_bytes},
           {"masked_bytes", v.masked_bytes},
           {"launches_checked", v.launches_checked},
           {"differences", std::move(differences)},
           {"oracle", v.oracle},
           {"inputs_tried", v.inputs_tried},
           {"seed", v.seed},
           {"guarded_bytes", v.guarded_bytes}};
  j["inputs"] = Json::array();
  for (const InputTried& i : v.inputs)
    j["inputs"].push_back({{"kind", i.kind}, {"what", i.what}, {"result", i.result}, {"agrees", i.agrees}});
  if (!v.types.empty()) j["types"] = v.types;
  if (!v.tolerances.empty()) j["tolerances"] = v.tolerances;
  if (v.values.elements != 0) j["values"] = v.values;
}
void from_json(const Json& j, Validation& v) {
  read_optional(j, "correctness", v.correctness);
  read_optional(j, "reason", v.reason);
  read_optional(j, "level", v.level);
  read_optional(j, "checked_bytes", v.checked_bytes);
  read_optional(j, "differing_bytes", v.differing_bytes);
  read_optional(j, "masked_bytes", v.masked_bytes);
  read_optional(j, "launches_checked", v.launches_checked);
  if (auto it = j.find("differences"); it != j.end())
    for (const Json& one : *it) from_json(one, v.differences.emplace_back());
  read_optional(j, "oracle", v.oracle);
  read_optional(j, "inputs_tried", v.inputs_tried);
  read_optional(j, "seed", v.seed);
  read_optional(j, "guarded_bytes", v.guarded_bytes);
  read_optional(j, "values", v.values);
  if (j.contains("types")) v.types = j["types"];
  if (j.contains("tolerances")) v.tolerances = j["tolerances"];
  if (auto it = j.find("inputs"); it != j.end())
    for (const Json& one : *it) {
      InputTried& i = v.inputs.emplace_back();
      read_optional(one, "kind", i.kind);
      read_optional(one, "what", i.what);
      read_optional(one, "result", i.result);
      read_optional(one, "agrees", i.agrees);
    }
}

void to_json(Json& j, const VariantAnswer& v) {
  j = Json{{"label", v.label},
           {"outcome", v.outcome},
           {"samples_ns", v.samples_ns},
           {"restored_bytes_per_iteration", v.restored_bytes_per_iteration},
           {"written_bytes", v.written_bytes},
           {"resources", v.resources},
           {"code_hash", v.code_hash},
           {"validation", v.validation}};
  if (!v.replay_averages_ns.empty()) j["replay_averages_ns"] = v.replay_averages_ns;
  if (v.error) j["error"] = *v.error;
  if (!v.counters.is_null()) j["counters"] = v.counters;
  if (!v.throughput.is_null()) j["throughput"] = v.throughput;
}
void from_json(const Json& j, VariantAnswer& v) {
  read_optional(j, "label", v.label);
  read_required(j, "outcome", v.outcome);
  read_optional_value(j, "error", v.error);
  read_optional(j, "samples_ns", v.samples_ns);
  read_optional(j, "replay_averages_ns", v.replay_averages_ns);
  read_optional(j, "restored_bytes_per_iteration", v.restored_bytes_per_iteration);
  read_optional(j, "written_bytes", v.written_bytes);
  read_optional(j, "resources", v.resources);
  read_optional(j, "code_hash", v.code_hash);
  read_optional(j, "validation", v.validation);
  if (j.contains("counters")) v.counters = j["counters"];
  if (j.contains("throughput")) v.throughput = j["throughput"];
}

void to_json(Json& j, const Answer& v) {
  j = Json{{"protocol", v.protocol},
           {"outcome", v.outcome},
           {"device", v.device},
           {"asked", v.asked},
           {"ran", v.ran},
           {"notes", v.notes},
           {"address_mode", v.address_mode},
           {"address_by", v.address_by},
           {"rewritten_words", v.rewritten_words},
           {"captured_bytes", v.captured_bytes},
           {"variants", v.variants},
           {"wall_ms", v.wall_ms}};
  if (v.error) j["error"] = *v.error;
  if (v.proof.state != bundle::ProofState::not_run) j["proof"] = v.proof;
  if (!v.devices.empty()) j["devices"] = v.devices;
  if (!v.comparison.is_null()) j["comparison"] = v.comparison;
  if (!v.calibration.is_null()) j["calibration"] = v.calibration;
}
void from_json(const Json& j, Answer& v) {
  read_required(j, "protocol", v.protocol);
  read_required(j, "outcome", v.outcome);
  read_optional_value(j, "error", v.error);
  read_optional(j, "device", v.device);
  read_optional(j, "asked", v.asked);
  read_optional(j, "ran", v.ran);
  read_optional(j, "notes", v.notes);
  read_optional(j, "address_mode", v.address_mode);
  read_optional(j, "address_by", v.address_by);
  read_optional(j, "rewritten_words", v.rewritten_words);
  read_optional(j, "captured_bytes", v.captured_bytes);
  read_optional(j, "variants", v.variants);
  read_optional(j, "proof", v.proof);
  read_optional(j, "devices", v.devices);
  read_optional(j, "calibration", v.calibration);
  read_optional(j, "wall_ms", v.wall_ms);
  if (j.contains("comparison")) v.comparison = j["comparison"];
}

}  // namespace klab::replay
