// SPDX-License-Identifier: Apache-2.0
#include "mcp/schemas.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace klab::mcp {
namespace {

Json text(const char* what, std::size_t most = 4096) {
  return {{"type", "string"}, {"description", what}, {"maxLength", most}};
}
Json integer(const char* what, std::int64_t least, std::int64_t most) {
  return {{"type", "integer"}, {"description", what}, {"minimum", least}, {"maximum", most}};
}
Json number(const char* what, double least, double most) {
  return {{"type", "number"}, {"description", what}, {"minimum", least}, {"maximum", most}};
}
Json flag(const char* what) { return {{"type", "boolean"}, {"description", what}}; }
Json one_of(const char* what, std::vector<std::string> words) {
  return {{"type", "string"}, {"description", what}, {"enum", std::move(words)}};
}
Json texts(const char* what) {
  return {{"type", "array"},
          {"description", what},
          {"items", {{"type", "string"}, {"maxLength", 4096}}},
          {"maxItems", 256}};
}
Json object(Json properties, std::vector<std::string> required) {
  return {{"type", "object"},
          {"properties", std::move(properties)},
          {"required", std::move(required)},
          {"additionalProperties", false}};
}
/// Answers may gain members, so they are open; what is named is always of that type.
Json answer(Json properties) {
  properties["next_actions"] = {{"type", "array"}, {"description", "what can be done now, and why"}};
  return {{"type", "object"}, {"properties", std::move(properties)}};
}

const Json kSessionId = text("the session's id, as tuning_open gave it", 64);

/// Each action and the members that it takes besides session, action and wait_seconds.
const std::vector<std::pair<std::string, std::vector<std::string>>>& actions() {
  static const std::vector<std::string> conditions{"mode",   "iterations", "repeats",        "cache",
                                                   "memory", "flush_mb",   "device",         "budget_s",
                                                   "level",  "types",      "tolerances",     "checker",
                                                   "seed",   "references", "other_captures", "unseen_launches",
                                                   "flops",  "bytes"};
  const auto with = [](std::vector<std::string> a, const std::vector<std::string>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  const auto without = [](std::vector<std::string> a, const std::vector<std::string>& b) {
    std::erase_if(a, [&](const std::string& name) { return std::find(b.begin(), b.end(), name) != b.end(); });
    return a;
  };
  static const std::vector<std::pair<std::string, std::vector<std::string>>> list{
      {"trace", {"limit_s"}},
      {"search", {"query", "root"}},
      {"select", {"file", "dispatch"}},
      {"capture", {"kernel", "nth", "scope", "max_bytes", "dry_run", "limit_s"}},
      {"build", build_members()},
      {"run", with(with({"variant", "counters"}, conditions), build_members())},
      {"compare", with(with({"variant", "against", "measure_s", "margin"}, without(conditions, {"iterations", "repeats"})), build_members())},
      {"tune", {"space"}},
      {"save", {"variant", "file", "base_hash", "token"}},
  };
  return list;
}

Json action_properties() {
  std::vector<std::string> names;
  for (const auto& [name, members] : actions()) names.push_back(name);
  return {
      {"session", kSessionId},
      {"action", one_of("what to do; see the tool's description", names)},
      {"wait_seconds",
       number("how long to wait for long work; then a job is given that tuning_status (view job) waits for",
              0, 300)},
      {"query", text("search: part of the kernel's name, or text of its source")},
      {"root", text("search: a folder within the allowed ones")},
      {"file", text("select, save: the source file")},
      {"dispatch", object({{"kernel", text("its name or a regular expression")},
                           {"nth", integer("which execution of it", 1, 1000000000)}},
                          {"kernel"})},
      {"kernel", text("capture: regular expression on the kernel's name, or a hash from list_dispatches; "
                      "build, run, compare with CUDA "
                      "source: the kernel in it that takes the captured one's place")},
      {"nth", integer("capture: which execution of that kernel, from 1", 1, 1000000000)},
      {"scope", one_of("capture: reachable follows pointers from the arguments; all takes every allocation",
                       {"reachable", "all"})},
      {"max_bytes", integer("capture: refuse more than this", 1, std::int64_t{1} << 50)},
      {"dry_run", flag("capture: only say how much would be captured")},
      {"limit_s", number("capture, trace: seconds after which the program is ended", 1, 86400)},
      {"variant", text("id or name of a variant; \"baseline\" is what was captured", 256)},
      {"against", text("compare: the reference (default baseline)", 256)},
      {"mode", one_of("isolated: inputs restored before each launch; sustained: back to back; repeats: the "
                      "whole replay with fresh "
                      "allocations",
                      {"isolated", "sustained", "repeats"})},
      {"iterations", integer("timed launches (default 20)", 1, 10000)},
      {"repeats", integer("mode repeats: replays (default 5)", 2, 100)},
      {"cache", one_of("before each launch (default cold; sustained is warm); rotating: launches take turns on copies of the capture", {"cold", "warm", "rotating"})},
      {"memory", one_of("pool to place memory in (default: as captured)", {"device", "host"})},
      {"flush_mb", integer("MiB that go through the caches before each launch", 0, 65536)},
      {"device", text("index, uuid or part of a name (list_devices)", 256)},
      {"budget_s", number("seconds that the worker may take in all", 1, 86400)},
      {"measure_s", number("compare: seconds to measure in (default 10); fewer widen the interval, never the claim; 0: only "
                           "judge. The first comparison of a kind takes twice as long",
                           0, 3600)},
      {"margin", number("compare: differences up to this count as none (default 0.005)", 0.005, 0.99)},
      {"level", one_of("run, compare: how results are compared with the captured kernel's. bitwise (default): every "
                       "byte; numeric: floating-point elements within a tolerance; custom: the checker decides",
                       {"bitwise", "numeric", "custom"})},
      {"types", texts("run, compare: element types of regions, REGION=f16:4096x4096 (a region's number or name)")},
      {"tolerances", texts("level numeric: abs=1e-5,rel=1e-4, or REGION:abs=... (default: by type)")},
      {"checker", texts("level custom: the name of a checker in the project's klab.toml")},
      {"references", texts("level numeric: REGION=FILE of float64 values (.npy) that errors are measured against")},
      {"other_captures", flag("judge on the bundle's other dispatches too (default true)")},
      {"seed", integer("of mutated inputs and of the order of launches", 1, 4294967295)},
      {"unseen_launches",
       {{"type", "array"},
        {"maxItems", 16},
        {"description", "other launch sizes that captured kernel and variant must agree on"},
        {"items", object({{"grid", text("X,Y,Z", 64)},
                          {"block", text("CUDA: X,Y,Z", 64)},
                          {"push_constants", texts("Vulkan: OFFSET=HEX; CUDA: argument bytes")},
                          {"spec_constants", texts("Vulkan: ID=VALUE")}},
                         {})}}},
      {"flops", texts("run, compare: operations of one launch, for its share of the speed of light: 2e9, fp64=1e9, "
                      "matrix:bf16=1.1e12")},
      {"bytes", texts("run, compare: bytes that one launch moves: 1.2e9, or read=8e8 and written=4e8")},
      {"counters", texts("run: hardware counters by the vendor's names, or \"default\"")},
      {"source", text("build, run, compare: a source file within the allowed folders")},
      {"source_text", text("build, run, compare: the variant's source itself", 8u << 20)},
      {"language", one_of("of source_text", {"glsl", "spirv", "cuda", "ptx", "hip"})},
      {"name", text("the variant's name", 128)},
      {"defines", texts("NAME or NAME=VALUE")},
      {"include_folders", texts("for #include, within the allowed folders")},
      {"grid", text("workgroups (blocks): X or X,Y or X,Y,Z", 64)},
      {"block", text("CUDA: threads of a block", 64)},
      {"cluster", text("CUDA: blocks of a cluster", 64)},
      {"dynamic_shared", text("CUDA: bytes, or 48K", 64)},
      {"attributes", texts("CUDA: NAME=INTEGER")},
      {"spec_constants", texts("Vulkan: ID=VALUE")},
      {"push_constants", texts("Vulkan: OFFSET=HEX")},
      {"subgroup_size", integer("Vulkan: required subgroup size", 1, 1024)},
      {"arch", text("CUDA: sm_90a (default: the captured device's)", 32)},
      {"compiler", one_of("CUDA: nvrtc, nvcc; HIP: hipcc, hiprtc", {"auto", "nvrtc", "nvcc", "hipcc", "hiprtc"})},
      {"standard", text("CUDA: c++17", 16)},
      {"fast_math", flag("CUDA: fast, less exact arithmetic; the check may refuse it")},
      {"max_registers", integer("CUDA: most registers a thread may have", 1, 255)},
      {"space", {{"type", "object"}, {"description", "tune: not in this version"}}},
      {"base_hash", text("save: refuse when the file's hash is another", 64)},
      {"token", text("save: of a preview that a person has approved", 256)},
  };
}

std::string action_description() {
  std::string out =
      "One step of a tuning. Actions and what they take:\n"
      "- trace {limit_s}: run the session's program and list its dispatches\n"
      "- search {query, root}: files that may be the kernel's source, with the evidence\n"
      "- select {file} or {dispatch}: say which source file, or which dispatch to capture\n"
      "- capture {kernel, nth, scope, max_bytes, dry_run}: run the program and take one dispatch with its "
      "inputs; its replay is "
      "proved\n"
      "- build {source or source_text+language, name, defines, ...}: compile a variant\n"
      "- run {variant, or a source; mode, iterations, cache, counters}: time one variant and check its "
      "results\n"
      "- compare {variant, or a source; against; measure_s}: is it right, and is it faster: faster, slower, equivalent, "
      "inconclusive, unstable, clock_dependent or identical, with the interval\n"
      "- save {variant}: write a correct variant into the source file; a person is asked, a backup is kept\n"
      "- tune: not in this version\n"
      "A wrong variant has no speed. Long work gives a job when wait_seconds have passed. Compiled kernels "
      "run on the GPU with the "
      "user's rights.";
  return out;
}

}  // namespace

const std::vector<std::string>& build_members() {
  static const std::vector<std::string> list{
      "source",          "source_text",    "language",       "name",          "defines",
      "include_folders", "grid",           "block",          "cluster",       "dynamic_shared",
      "attributes",      "spec_constants", "push_constants", "subgroup_size", "arch",
      "compiler",        "standard",       "fast_math",      "max_registers", "kernel"};
  return list;
}

std::string action_violation(const std::string& action, const Json& arguments) {
  static const std::set<std::string> common{"session", "action", "wait_seconds"};
  for (const auto& [name, members] : actions()) {
    if (name != action) continue;
    for (const auto& [member, value] : arguments.items())
      if (!common.contains(member) && std::find(members.begin(), members.end(), member) == members.end())
        return fmt::format("action {} takes no \"{}\"; it takes: {}", action, member,
                           fmt::format("{}", fmt::join(members, ", ")));
    if (action == "save" && !arguments.contains("variant")) return "action save needs \"variant\"";
    if (action == "select" && !arguments.contains("file") && !arguments.contains("dispatch"))
      return "action select needs \"file\" or \"dispatch\"";
    if (arguments.contains("source_text") && !arguments.contains("language"))
      return "source_text needs \"language\": glsl, spirv, cuda or ptx";
    if (arguments.contains("source_text") && arguments.contains("source"))
      return "give source or source_text, not both";
    return "";
  }
  return "there is no action \"" + action + "\"";
}

std::vector<Tool> describe_tools() {
  const Json session = {{"type", "object"},
                        {"description", "the session: id, name, state, roots, bundle, runs of max_runs"}};
  const Json views = one_of("what to read (default summary)",
                            {"summary", "dispatches", "variants", "runs", "comparisons", "jobs", "job",
                             "events", "saves", "diff", "source", "disassembly", "log"});
  std::vector<Tool> tools;
  const auto add = [&](Tool tool) { tools.push_back(std::move(tool)); };
  add({.name = "tuning_open",
       .title = "Open a session",
       .description = "Opens a kernel laboratory on a program that the user allowed (by name), or on a "
                      "bundle that was captured "
                      "before. It may read and write only under the folders that the user allowed.",
       .input = object({{"name", text("for a person", 200)},
                        {"program", text("name of an allowed program", 128)},
                        {"bundle", text("path of a NAME.klab, in place of a program")}},
                       {}),
       .output = answer({{"session", session}})});
  add({.name = "tuning_status",
       .title = "Read a session",
       .description = "State, history and results of a session, a page at a time. view=job waits for a job "
                      "(wait_seconds) and gives "
                      "its result.",
       .input = object({{"session", kSessionId},
                        {"view", views},
                        {"cursor", text("next_cursor of the page before", 128)},
                        {"limit", integer("items of a page", 1, 200)},
                        {"variant", text("of this variant only", 256)},
                        {"run", integer("of this run only", 1, std::int64_t{1} << 53)},
                        {"job", integer("its number", 1, std::int64_t{1} << 53)},
                        {"wait_seconds", number("view job: how long to wait", 0, 300)}},
                       {"session"}),
       .output =
           answer({{"session", session}, {"view", {{"type", "string"}}}, {"items", {{"type", "array"}}}}),
       .reads_only = true,
       .idempotent = true});
  add({.name = "tuning_action",
       .title = "Do one step",
       .description = action_description(),
       .input = object(action_properties(), {"session", "action"}),
       .output = answer({{"state", {{"type", "string"}}}, {"job", {{"type", "integer"}}}}),
       .destructive = true});
  add({.name = "tuning_close",
       .title = "Close a session",
       .description = "Deletes the session's captured inputs and validation dumps; results, logs, sources "
                      "and backups stay.",
       .input = object({{"session", kSessionId}}, {"session"}),
       .output = answer({{"freed_bytes", {{"type", "integer"}}}}),
       .destructive = true,
       .idempotent = false});
  const auto reading = [&](std::string name, std::string title, std::string description, Json input,
                           Json output) {
    add({.name = std::move(name),
         .title = std::move(title),
         .description = std::move(description),
         .input = std::move(input),
         .output = std::move(output),
         .reads_only = true,
         .idempotent = true});
  };
  reading("list_sessions", "List sessions", "Sessions of this user, newest first.",
          object({{"closed", flag("closed ones too")}, {"limit", integer("how many", 1, 200)}}, {}),
          answer({{"sessions", {{"type", "array"}}}}));
  reading("list_dispatches", "List dispatches", "Dispatches of the session's last trace, by GPU time.",
          object({{"session", kSessionId}, {"cursor", text("", 128)}, {"limit", integer("", 1, 200)}},
                 {"session"}),
          answer({{"items", {{"type", "array"}}}}));
  reading("list_devices", "List devices", "GPUs that can be replayed on. Starts a worker.",
          object(Json::object(), {}), answer({{"devices", {{"type", "array"}}}}));
  reading("list_calibrations", "List calibrations", "Measured rates of devices that are kept; measures nothing.",
          object(Json::object(), {}), answer({{"calibrations", {{"type", "array"}}}}));
  reading("read_report", "Read a report",
          "The evidence of a session: what was captured, built, measured, judged and saved.",
          object({{"session", kSessionId}, {"format", one_of("", {"json", "markdown"})}}, {"session"}),
          answer(Json::object()));
  reading("read_source", "Read a source", "The selected source file, or that of a variant, as it was built.",
          object({{"session", kSessionId}, {"variant", text("id or name", 256)}}, {"session"}),
          answer(Json::object()));
  return tools;
}

}  // namespace klab::mcp
