// SPDX-License-Identifier: Apache-2.0
#include "mcp/tools.h"

#include <fmt/format.h>

#include <chrono>

#include "base/files.h"
#include "mcp/schemas.h"

namespace klab::mcp {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kDefaultWait = 20, kPoll = 0.4;

bool ended(const std::string& state) { return state != "queued" && state != "running"; }

class Bench {
 public:
  Bench(const Allowed& allowed, Call call) : allowed_(allowed), call_(std::move(call)) {}

  Result<Json> call(const std::string& verb, const Json& arguments, Asker& asker) const {
    return call_(verb, arguments, asker.progress, [&] { return asker.cancelled() || asker.left(); });
  }

  Outcome answer(Result<Json> result) const {
    if (!result) return {problem(result.error()), true, false};
    if (!result->contains("next_actions")) (*result)["next_actions"] = Json::array();
    return {cut_texts(std::move(*result)), false, false};
  }

  /// The job until it ends or `wait_s` have passed; a client that cancels stops the work itself.
  Result<Json> wait(const Json& job, double wait_s, Asker& asker) const {
    const auto deadline =
        Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(wait_s));
    for (;;) {
      if (asker.left()) return fail(ErrorCode::interrupted, "the client left; the job goes on");
      if (asker.cancelled()) {
        (void)call_("job.cancel", {{"job", job}}, {}, {});
        return fail(ErrorCode::interrupted, "cancelled: the work was stopped");
      }
      const double left = std::chrono::duration<double>(deadline - Clock::now()).count();
      KLAB_TRY(Json seen,
               call_("job.wait", {{"job", job}, {"wait_s", std::clamp(left, 0.0, kPoll)}}, {}, {}));
      const Json& row = seen.at("job");
      const Json progress = seen.value("progress", Json::object());
      if (ended(row.at("state").get<std::string>())) {
        const Json result = row.value("result", Json::object());
        if (result.is_object() && result.contains("error"))
          return fail(decode_json<Error>(result["error"], "job").value_or(Error{}));
        if (row["state"] == "done")
          return result.is_object() && result.contains("result") ? result["result"] : result;
        return fail(row["state"] == "cancelled" ? ErrorCode::interrupted : ErrorCode::worker_lost,
                    fmt::format("job {} ended as {}", job.dump(), row["state"].get<std::string>()),
                    "start the action again");
      }
      if (asker.progress && !progress.empty())
        asker.progress({progress.value("line", ""), progress.value("done", std::uint64_t{0}),
                        progress.value("total", std::uint64_t{0}), progress.value("place", 0u)});
      if (left <= 0)
        return Json{{"job", job},
                    {"state", "running"},
                    {"progress", progress},
                    {"next_actions", Json::array({{{"tool", "tuning_status"},
                                                   {"arguments", {{"view", "job"}, {"job", job}}},
                                                   {"why", "waits for the job and gives its result"}}})}};
    }
  }

  Result<Json> run_job(const std::string& verb, const Json& arguments, double wait_s, Asker& asker) const {
    KLAB_TRY(Json started,
             call_("job.start",
                   {{"verb", verb}, {"arguments", arguments}, {"session", arguments.at("session")}}, {}, {}));
    return wait(started.at("job"), wait_s, asker);
  }

  Outcome open(const Json& a, Asker& asker) const {
    auto arguments = ops::open_arguments(allowed_, a, "mcp");
    if (!arguments) return {problem(arguments.error()), true, false};
    return answer(call("session.open", *arguments, asker));
  }

  Outcome status(Json a, Asker& asker) const {
    const double wait_s = a.value("wait_seconds", 0.0);
    a.erase("wait_seconds");
    if (a.value("view", "") == "job") {
      if (!a.contains("job"))
        return {problem({ErrorCode::usage, "view job needs \"job\"", "the number that an action gave", 0}),
                true, false};
      auto result = wait(a["job"], wait_s, asker);
      if (!result) return {problem(result.error()), true, false};
      if (result->value("state", "") == "running" && result->contains("job"))
        return answer(std::move(result));
      return answer(Json{{"job", a["job"]}, {"state", "done"}, {"result", std::move(*result)}});
    }
    return answer(call("session.status", a, asker));
  }

  Outcome act(const Json& given, Asker& asker) const {
    Json a = given;
    const std::string action = a["action"];
    if (std::string wrong = action_violation(action, a); !wrong.empty())
      return {
          problem({ErrorCode::usage, wrong, "see the tool's description for the members of each action", 0}),
          true, false};
    const double wait_s = a.value("wait_seconds", kDefaultWait);
    a.erase("action"), a.erase("wait_seconds");
    if (action == "save") return save(std::move(a), asker);
    if (action == "search" || action == "select") return answer(call("session." + action, a, asker));
    if (action == "run" || action == "compare") {
      // A source given here is built first: one call to try an idea.
      if (a.contains("source") || a.contains("source_text")) {
        Json build{{"session", a["session"]}};
        for (const std::string& name : build_members())
          if (a.contains(name)) build[name] = a[name], a.erase(name);
        auto built = call("session.build", build, asker);
        if (!built) return {problem(built.error()), true, false};
        a["variant"] = built->at("variant").at("id");
      }
      if (action == "compare" && !a.contains("variant"))
        return {problem({ErrorCode::usage, "compare needs \"variant\", \"source\" or \"source_text\"",
                         "tuning_status view=variants lists those that are there", 0}),
                true, false};
    }
    return answer(run_job("session." + action, a, wait_s, asker));
  }

  Outcome save(Json a, Asker& asker) const {
    Json again{{"session", a["session"]}, {"variant", a["variant"]}};
    if (a.contains("file")) again["file"] = a["file"];
    if (asker.resumed) {  // the person's answer to the question of an earlier round
      const Said said = asker.ask("", *asker.resumed);
      if (said == Said::accepted) {
        again["token"] = *asker.resumed, again["approved"] = true;
        return answer(call("session.save", again, asker));
      }
      return declined();
    }
    auto preview = call("session.save", a, asker);
    if (!preview || preview->value("state", "") != "preview") return answer(std::move(preview));
    again["token"] = preview->at("token");
    const std::string file = preview->value("file", "");
    if (ops::lies_under(file, allowed_.save_roots)) {
      again["approved"] = true;
      return answer(call("session.save", again, asker));
    }
    const std::string diff = cut_texts(preview->at("diff"), 8192).get<std::string>();
    switch (asker.ask(fmt::format("Klab is to write this into {} (a backup is kept):\n\n{}", file, diff),
                      preview->at("token"))) {
      case Said::accepted:
        again["approved"] = true;
        return answer(call("session.save", again, asker));
      case Said::declined:
        return declined();
      case Said::later:
        return {Json::object(), false, true};
      case Said::cannot_ask:
        break;
    }
    return answer(std::move(preview));
  }

  Outcome declined() const {
    return {Json{{"state", "declined"},
                 {"message", "the user does not want this to be saved; nothing was written"},
                 {"next_actions", Json::array()}},
            false, false};
  }

 private:
  Allowed allowed_;
  Call call_;
};

}  // namespace

Json problem(const Error& error) {
  bool retryable = false;
  switch (error.code) {
    case ErrorCode::timeout:
    case ErrorCode::worker_lost:
    case ErrorCode::interrupted:
    case ErrorCode::out_of_memory:
    case ErrorCode::store_failed:
    case ErrorCode::source_changed:
      retryable = true;
      break;
    default:
      break;
  }
  return cut_texts(Json{{"code", to_string(error.code)},
                        {"message", error.what},
                        {"hint", error.hint},
                        {"retryable", retryable},
                        {"next_actions", Json::array()}});
}

Json cut_texts(Json value, std::size_t limit) {
  if (value.is_string()) {
    auto& text = value.get_ref<std::string&>();
    if (text.size() > limit) {
      std::size_t keep = limit;
      while (keep > 0 && (static_cast<unsigned char>(text[keep]) & 0xc0) == 0x80) --keep;
      text = text.substr(0, keep) + fmt::format("\n[{} bytes more]", text.size() - keep);
    }
  } else if (value.is_structured()) {
    for (Json& member : value) member = cut_texts(std::move(member), limit);
  }
  return value;
}

std::vector<Tool> make_tools(const Allowed& allowed, Call call) {
  const auto bench = std::make_shared<Bench>(allowed, std::move(call));
  const auto through = [bench](std::string verb) {
    return [bench, verb = std::move(verb)](const Json& a, Asker& asker) {
      return bench->answer(bench->call(verb, a, asker));
    };
  };
  std::vector<Tool> tools = describe_tools();
  for (Tool& tool : tools) {
    if (tool.name == "tuning_open")
      tool.run = [bench](const Json& a, Asker& asker) { return bench->open(a, asker); };
    else if (tool.name == "tuning_status")
      tool.run = [bench](const Json& a, Asker& asker) { return bench->status(a, asker); };
    else if (tool.name == "tuning_action")
      tool.run = [bench](const Json& a, Asker& asker) { return bench->act(a, asker); };
    else if (tool.name == "tuning_close")
      tool.run = through("session.close");
    else if (tool.name == "list_sessions")
      tool.run = through("session.list");
    else if (tool.name == "list_devices")
      tool.run = through("devices");
    else if (tool.name == "read_report")
      tool.run = through("session.report");
    else if (tool.name == "list_dispatches" || tool.name == "read_source")
      tool.run = [bench, view = tool.name == "read_source" ? "source" : "dispatches"](const Json& a,
                                                                                      Asker& asker) {
        Json with = a;
        with["view"] = view;
        return bench->answer(bench->call("session.status", with, asker));
      };
    else if (tool.name == "list_calibrations")
      tool.run = through("calibrations");
  }
  if (allowed.read_only) std::erase_if(tools, [](const Tool& tool) { return !tool.reads_only; });
  return tools;
}

}  // namespace klab::mcp
