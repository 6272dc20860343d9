// SPDX-License-Identifier: Apache-2.0
#include "serve/api.h"

#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/files.h"
#include "ops/fields.h"

namespace klab::serve {
namespace {

struct Open {
  std::string_view verb;
  bool changes;  // refused when the server is read-only
};

// Verbs that take a bundle or write where they are told are not among them: a session's verbs stay in its roots.
constexpr Open kOpen[] = {
    {"session.open", true},       {"session.list", false},     {"session.status", false},  {"session.trace", true},
    {"session.search", true},     {"session.select", true},    {"session.capture", true},  {"session.build", true},
    {"session.run", true},        {"session.compare", true},   {"session.save", true},     {"session.undo", true},
    {"session.approvals", false}, {"session.approve", true},   {"session.report", false},  {"session.close", true},
    {"dispatches.rows", false},   {"dispatches.kernels", false}, {"dispatches.timeline", false},
    {"devices", false},           {"calibrate", true},         {"calibrations", false},    {"report", false},
    {"job.start", true},          {"job.wait", false},         {"job.cancel", true},       {"events.wait", false},
    {"hub.status", false},
};

constexpr double kLongestWait = 20;

const Open* find_open(std::string_view verb) {
  const auto found = std::find_if(std::begin(kOpen), std::end(kOpen), [&](const Open& o) { return o.verb == verb; });
  return found == std::end(kOpen) ? nullptr : found;
}

}  // namespace

Json Api::about() const {
  Json programs = Json::array();
  for (const auto& [name, program] : granted_.programs) programs.push_back(name);
  char host[256] = "";
  (void)::gethostname(host, sizeof host - 1);
  return {{"version", version_},
          {"home", klab_home().string()},
          {"host", host},
          {"allowed",
           {{"roots", granted_.roots},
            {"programs", programs},
            {"save_roots", granted_.save_roots},
            {"read_only", granted_.read_only}}}};
}

Result<Json> Api::checked(const std::string& verb, Json arguments) const {
  const Open* open = find_open(verb);
  if (open == nullptr)
    return fail(ErrorCode::usage, fmt::format("\"{}\" is nothing that the page can ask for", verb.substr(0, 80)),
                "the command line has all verbs: klab --help");
  if (granted_.read_only && open->changes)
    return fail(ErrorCode::not_allowed, "this page may only read", "start klab serve without --read-only");
  if (!arguments.is_object()) return fail(ErrorCode::usage, verb + ": the arguments are not an object");
  if (verb == "session.open") {
    std::string name, program, bundle;
    KLAB_TRY_VOID(ops::Fields(arguments, verb)
                      .take("name", name)
                      .take("program", program)
                      .take("bundle", bundle)
                      .done());
    return ops::open_arguments(granted_, arguments, "page");
  }
  if (verb == "report") {  // read, never written anywhere
    std::int64_t comparison = 0;
    KLAB_TRY_VOID(ops::Fields(arguments, verb).need("comparison", comparison).done());
  }
  if (const auto list = arguments.find("list"); verb.starts_with("dispatches.") && list != arguments.end())
    if (!list->is_string() || !ops::lies_under(list->get<std::string>(), granted_.roots))
      return fail(ErrorCode::not_allowed, "the list lies outside the folders that this page may read",
                  "allowed are: " + Json(granted_.roots).dump());
  if (const auto wait = arguments.find("wait_s"); wait != arguments.end() && wait->is_number())
    arguments["wait_s"] = std::clamp(wait->get<double>(), 0.0, kLongestWait);
  if (verb == "job.start") {
    std::string inner, session;
    Json inner_arguments = Json::object();
    KLAB_TRY_VOID(ops::Fields(arguments, verb)
                      .need("verb", inner)
                      .take("arguments", inner_arguments)
                      .take("session", session)
                      .done());
    if (inner.starts_with("job.") || inner.starts_with("hub.") || inner.starts_with("events."))
      return fail(ErrorCode::usage, inner.substr(0, 80) + " is no work for a job");
    KLAB_TRY(arguments["arguments"], checked(inner, std::move(inner_arguments)));
  }
  return arguments;
}

Result<Json> Api::call(const std::string& verb, const Json& arguments, const std::function<bool()>& cancelled) const {
  KLAB_TRY(const Json given, checked(verb, arguments));
  return call_(verb, given, cancelled);
}

std::string Api::answer(const std::string& body, const std::function<bool()>& cancelled) const {
  const auto result = [&]() -> Result<Json> {
    KLAB_TRY(const Json message, parse_json(body, "the request"));
    std::string verb;
    Json arguments = Json::object();
    KLAB_TRY_VOID(ops::Fields(message, "a call").need("verb", verb).take("arguments", arguments).done());
    return call(verb, arguments, cancelled);
  }();
  return (result ? Json{{"result", *result}} : Json{{"error", result.error()}})
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace klab::serve
