// SPDX-License-Identifier: Apache-2.0
#include "ops/requests.h"

#include <fmt/format.h>

namespace klab::ops {
namespace {

constexpr std::uint32_t kMostIterations = 10000, kMostRepeats = 100;

Status check_conditions(const replay::Conditions& c) {
  if (c.iterations < 1 || c.iterations > kMostIterations)
    return fail(ErrorCode::usage, "iterations: from 1 to 10000", "20 is the default");
  if (c.repeats < 2 || c.repeats > kMostRepeats) return fail(ErrorCode::usage, "repeats: from 2 to 100", "5 is the default");
  if (c.flush_mb > 65536) return fail(ErrorCode::usage, "flush_mb: at most 65536", "0 flushes twice the last-level cache");
  if (!c.memory.empty() && c.memory != "device" && c.memory != "host")
    return fail(ErrorCode::usage, "memory: device or host", "leave it out to keep memory as it was captured");
  if (c.mode == replay::Mode::sustained && c.cache != replay::CacheState::warm)
    return fail(ErrorCode::usage,
                fmt::format("launches back to back leave the cache warm: mode sustained has no {} cache", to_string(c.cache)),
                "cache warm, or mode isolated");
  return {};
}

template <class T>
void put(Json& j, const char* name, const T& value) {
  if (!(value == T{})) j[name] = value;
}

}  // namespace

Fields& take_conditions(Fields& fields, replay::Conditions& c) {
  std::optional<replay::CacheState> cache;
  fields.take("mode", c.mode).take("iterations", c.iterations).take("repeats", c.repeats);
  fields.take("cache", cache).take("memory", c.memory).take("flush_mb", c.flush_mb);
  c.cache = cache.value_or(c.mode == replay::Mode::sustained ? replay::CacheState::warm : replay::CacheState::cold);
  return fields;
}

Json condition_arguments(const replay::Conditions& c) {
  Json j{{"mode", c.mode}, {"iterations", c.iterations}, {"repeats", c.repeats}, {"cache", c.cache}};
  put(j, "memory", c.memory);
  put(j, "flush_mb", c.flush_mb);
  return j;
}

Fields& take_launch(Fields& fields, LaunchText& l) {
  fields.take("grid", l.grid).take("block", l.block).take("cluster", l.cluster);
  fields.take("dynamic_shared", l.dynamic_shared).take("attributes", l.attributes);
  return fields.take("spec_constants", l.spec_constants)
      .take("push_constants", l.push_constants)
      .take("subgroup_size", l.subgroup_size);
}

Json launch_arguments(const LaunchText& l) {
  Json j = Json::object();
  put(j, "grid", l.grid), put(j, "block", l.block), put(j, "cluster", l.cluster);
  put(j, "dynamic_shared", l.dynamic_shared), put(j, "attributes", l.attributes);
  put(j, "spec_constants", l.spec_constants), put(j, "push_constants", l.push_constants);
  put(j, "subgroup_size", l.subgroup_size);
  return j;
}

Fields& take_build(Fields& fields, BuildRequest& r) {
  std::string source, compile_commands;
  CudaBuild& c = r.cuda;
  fields.take("source", source).take("name", r.name).take("options", r.options);
  fields.take("defines", r.more_defines).take("include_folders", r.more_includes);
  take_launch(fields, r.launch);
  fields.take("arch", c.arch).take("compiler", c.compiler).take("hipcc", c.hipcc).take("standard", c.standard);
  fields.take("kernel", c.kernel);
  fields.take("fast_math", c.fast_math).take("line_info", c.line_info).take("max_registers", c.max_registers);
  fields.take("extra_options", c.extra).take("compile_commands", compile_commands);
  fields.take("no_compile_commands", c.no_compile_commands).take("instructions", r.instructions);
  r.source = source, c.compile_commands = compile_commands;
  return fields;
}

Json build_arguments(const BuildRequest& r) {
  Json j = launch_arguments(r.launch);
  const CudaBuild& c = r.cuda;
  put(j, "source", r.source.string()), put(j, "name", r.name);
  if (r.options) j["options"] = *r.options;
  put(j, "defines", r.more_defines), put(j, "include_folders", r.more_includes);
  put(j, "arch", c.arch), put(j, "compiler", c.compiler), put(j, "hipcc", c.hipcc), put(j, "standard", c.standard);
  put(j, "kernel", c.kernel);
  if (c.fast_math) j["fast_math"] = *c.fast_math;
  if (c.line_info) j["line_info"] = *c.line_info;
  if (c.max_registers) j["max_registers"] = *c.max_registers;
  put(j, "extra_options", c.extra), put(j, "compile_commands", c.compile_commands.string());
  put(j, "no_compile_commands", c.no_compile_commands), put(j, "instructions", r.instructions);
  return j;
}

Result<ReplayRequest> replay_request(const Json& arguments, std::string_view verb) {
  ReplayRequest r;
  Fields fields(arguments, verb);
  std::string bundle;
  fields.need("bundle", bundle).take("dispatch", r.dispatch).take("variant", r.variant).take("device", r.device);
  fields.take("counters", r.counters).take("validate", r.validate).take("budget_s", r.budget_s);
  fields.take("cached", r.cached);
  take_launch(fields, r.launch);
  take_checks(fields, r.checks);
  take_work(fields, r.work);
  KLAB_TRY_VOID(take_conditions(fields, r.conditions).done());
  KLAB_TRY_VOID(check_conditions(r.conditions));
  r.bundle = bundle;
  return r;
}

Result<CompareRequest> compare_request(const Json& arguments, std::string_view verb) {
  CompareRequest r;
  Fields fields(arguments, verb);
  std::string bundle;
  fields.need("bundle", bundle).take("variant", r.variant).take("variants", r.variants).take("against", r.against);
  fields.take("dispatch", r.dispatch).take("device", r.device).take("budget_s", r.budget_s);
  fields.take("measure_s", r.measure_s).take("margin", r.margin);
  take_checks(fields, r.checks);
  take_work(fields, r.work);
  KLAB_TRY_VOID(take_conditions(fields, r.conditions).done());
  KLAB_TRY_VOID(check_conditions(r.conditions));
  if (r.variant.empty() == r.variants.empty())
    return fail(ErrorCode::usage, fmt::format("{} needs \"variant\", or \"variants\" for several", verb), "the name of a variant");
  if (r.conditions.mode == replay::Mode::repeats)
    return fail(ErrorCode::usage, "a comparison places everything anew many times by itself: it has no mode repeats",
                "mode isolated");
  if (!(r.measure_s >= 0 && r.measure_s <= 3600))
    return fail(ErrorCode::usage, "measure_s: from 0 (only judge) to 3600 seconds", "10 is the default");
  if (!(r.margin >= 0.005 && r.margin < 1))
    return fail(ErrorCode::usage, "margin: from 0.005 to 1", "0.01 calls differences up to 1 % equal");
  r.bundle = bundle;
  return r;
}

Result<BuildRequest> build_request(const Json& arguments, std::string_view verb) {
  BuildRequest r;
  Fields fields(arguments, verb);
  std::string bundle;
  fields.need("bundle", bundle);
  KLAB_TRY_VOID(take_build(fields, r).done());
  r.bundle = bundle;
  return r;
}

}  // namespace klab::ops
