// SPDX-License-Identifier: Apache-2.0
#include "mcp/resources.h"

#include <fmt/format.h>

namespace klab::mcp {
namespace {

constexpr std::string_view kPrefix = "klab://session/";
constexpr std::size_t kMostText = 1u << 20;

struct Kind {
  const char *name, *title, *mime;
  bool of_variant;
};
constexpr Kind kKinds[] = {{"report", "Report", "text/markdown", false},
                           {"log", "Log", "text/plain", false},
                           {"source", "Source", "text/plain", true},
                           {"disassembly", "Disassembly", "text/plain", true}};

const Kind* kind_of(std::string_view name) {
  for (const Kind& kind : kKinds)
    if (name == kind.name) return &kind;
  return nullptr;
}

tl::unexpected<Error> unknown(const std::string& uri) {
  return fail(ErrorCode::not_found, "no such resource: " + uri.substr(0, 200),
              "resources/list and resources/templates/list name them");
}

}  // namespace

Result<Json> list_resources(const Call& call) {
  KLAB_TRY(const Json sessions, call("session.list", {{"closed", true}, {"limit", 50}}, {}, {}));
  Json list = Json::array();
  for (const Json& session : sessions.at("sessions")) {
    const std::string id = session.at("id"), name = session.value("name", "");
    for (const Kind& kind : kKinds)
      if (!kind.of_variant)
        list.push_back(
            {{"uri", fmt::format("{}{}/{}", kPrefix, id, kind.name)},
             {"name", fmt::format("{} of {}", kind.title, name.empty() ? id : name.substr(0, 100))},
             {"mimeType", kind.mime}});
  }
  return Json{{"resources", std::move(list)}};
}

Json list_resource_templates() {
  Json list = Json::array();
  for (const Kind& kind : kKinds)
    list.push_back({{"uriTemplate", fmt::format("{}{{session}}/{}{}", kPrefix, kind.name,
                                                kind.of_variant ? "/{variant}" : "")},
                    {"name", fmt::format("{} of a {}", kind.title, kind.of_variant ? "variant" : "session")},
                    {"mimeType", kind.mime}});
  return {{"resourceTemplates", std::move(list)}};
}

Result<Json> read_resource(const Call& call, const std::string& uri) {
  if (uri.rfind(kPrefix, 0) != 0 || uri.size() > 300) return unknown(uri);
  std::vector<std::string> parts;
  for (std::size_t at = kPrefix.size(); at <= uri.size();) {
    const std::size_t end = std::min(uri.find('/', at), uri.size());
    parts.push_back(uri.substr(at, end - at));
    at = end + 1;
  }
  const Kind* kind = parts.size() >= 2 ? kind_of(parts[1]) : nullptr;
  if (kind == nullptr || parts.size() > 3 || (parts.size() == 3) != kind->of_variant) return unknown(uri);
  std::string text;
  if (std::string_view(kind->name) == "report") {
    KLAB_TRY(const Json got, call("session.report", {{"session", parts[0]}, {"format", "markdown"}}, {}, {}));
    text = got.at("report").is_string() ? got["report"].get<std::string>() : got["report"].dump(2);
  } else {
    Json arguments{{"session", parts[0]}, {"view", kind->name}};
    if (kind->of_variant) arguments["variant"] = parts[2];
    KLAB_TRY(const Json got, call("session.status", arguments, {}, {}));
    text = got.value("text", "");
  }
  return Json{
      {"contents",
       Json::array({{{"uri", uri}, {"mimeType", kind->mime}, {"text", cut_texts(Json(text), kMostText)}}})}};
}

Json list_prompts() {
  return {
      {"prompts",
       Json::array(
           {{{"name", "tune_kernel"},
             {"title", "Tune a kernel"},
             {"description",
              "The loop: find the slow kernel, capture it, try variants, prove the winner, save it"},
             {"arguments",
              Json::array(
                  {{{"name", "program"}, {"description", "name of an allowed program"}, {"required", false}},
                   {{"name", "goal"}, {"description", "what to reach"}, {"required", false}}})}}})}};
}

Result<Json> get_prompt(const std::string& name, const Json& arguments) {
  if (name != "tune_kernel")
    return fail(ErrorCode::not_found, "no such prompt: " + name.substr(0, 100), "prompts/list names them");
  const auto said = [&](const char* member) {
    return arguments.contains(member) && arguments[member].is_string()
               ? arguments[member].get<std::string>().substr(0, 2000)
               : "";
  };
  const std::string program = said("program"), goal = said("goal");
  const std::string text = fmt::format(
      "Make one GPU kernel of {} faster{}.\n"
      "1. tuning_open, then tuning_action trace, and read list_dispatches: take the kernel with the largest "
      "share of time.\n"
      "2. tuning_action capture it. If the proof replay is not `equal`, say so and capture with scope all, "
      "or stop.\n"
      "3. tuning_action search for its source and select the file. Read it with read_source.\n"
      "4. tuning_action run the baseline with counters, and think about what limits it before changing "
      "anything.\n"
      "5. Write one variant at a time; tuning_action compare it with source_text. `incorrect` and "
      "`not_verified` mean that it "
      "does not count, however fast. Keep conditions equal.\n"
      "6. Stop when ideas no longer help. Compare the best one again with a larger measure_s: only its verdict is a claim.\n"
      "7. tuning_action save it: a person decides. Then tuning_close.\n"
      "Report each variant that was tried, also those that failed.",
      program.empty() ? "the user's program" : "the program \"" + program + "\"",
      goal.empty() ? "" : ": " + goal);
  return Json{
      {"description", "Tune a kernel"},
      {"messages", Json::array({{{"role", "user"}, {"content", {{"type", "text"}, {"text", text}}}}})}};
}

}  // namespace klab::mcp
