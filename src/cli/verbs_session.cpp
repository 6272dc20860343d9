// SPDX-License-Identifier: Apache-2.0
// session: a laboratory that lasts longer than a command.
#include <unistd.h>

#include <fmt/format.h>

#include <iostream>

#include "base/units.h"
#include "cli/cli.h"
#include "ops/api.h"

namespace klab::cli {
namespace {

struct SessionOptions {
  std::string id, name, bundle, folder, view = "summary", cursor, variant, query, root, file, kernel,
                                        scope = "reachable", max_bytes, token, format = "markdown";
  std::vector<std::string> roots, allow_save;
  std::int64_t limit = 50, max_runs = 0, job = 0, run = 0, after = 0;
  std::uint64_t nth = 1;
  double limit_s = 600;
  bool all = false, dry_run = false, yes = false, deny = false, follow = false;
};

/// Reading starts neither hub nor worker nor compiler: the store is here.
Result<Json> read_here(Cli& cli, const std::string& verb, const Json& arguments) {
  return ops::call(cli.lab, verb, arguments);
}

std::string text_of(const Json& j, const char* name) {
  const auto it = j.find(name);
  return it == j.end() || it->is_null() ? "" : it->is_string() ? it->get<std::string>() : it->dump();
}

void print_next(const Json& answer, const std::string& id) {
  if (!answer.contains("next_actions") || answer["next_actions"].empty()) return;
  const Json& first = answer["next_actions"][0];
  std::string verb = text_of(first, "verb");
  if (verb.rfind("session.", 0) != 0) return;
  fmt::print("next: klab session {} {}  ({})\n", verb.substr(8), id, text_of(first, "why"));
}

int finish(Cli& cli, const std::string& verb, Result<Json> answer,
           const std::function<void(const Json&)>& print) {
  if (!answer) return cli.report(answer.error());
  if (cli.json)
    cli.print_json(verb, std::move(*answer));
  else
    print(*answer);
  return 0;
}

int do_open(Cli& cli, const SessionOptions& o) {
  Json arguments{{"name", o.name},
                 {"made_by", "cli"},
                 {"settings_folder", absolute_path(o.folder.empty() ? "." : o.folder)}};
  Json roots = Json::array(), saves = Json::array();
  for (const std::string& root : o.roots) roots.push_back(absolute_path(root));
  if (roots.empty()) roots.push_back(absolute_path("."));
  for (const std::string& root : o.allow_save) saves.push_back(absolute_path(root));
  arguments["roots"] = roots;
  if (!saves.empty()) arguments["allow_save"] = saves;
  if (!o.bundle.empty()) arguments["bundle"] = absolute_path(o.bundle);
  if (o.max_runs > 0) arguments["max_runs"] = o.max_runs;
  if (!cli.program.empty()) {
    std::vector<std::string> program = cli.program;
    if (program[0].find('/') != std::string::npos) program[0] = absolute_path(program[0]);
    arguments["program"] = program;
    arguments["working_folder"] = absolute_path(".");
  }
  return finish(cli, "session open", read_here(cli, "session.open", arguments), [&](const Json& a) {
    const std::string id = a.at("session").at("id");
    fmt::print("opened session {}\n", cli.bold(id));
    print_next(a, id);
  });
}

int do_list(Cli& cli, const SessionOptions& o) {
  return finish(
      cli, "session list", read_here(cli, "session.list", {{"closed", o.all}, {"limit", o.limit}}),
      [&](const Json& a) {
        std::vector<std::vector<std::string>> rows{{"id", "state", "runs", "by", "opened", "kernel", "name"}};
        for (const Json& s : a.at("sessions"))
          rows.push_back({text_of(s, "id"), text_of(s, "state"), text_of(s, "runs"), text_of(s, "made_by"),
                          text_of(s, "made_at"),
                          s.at("dispatch").is_object() ? s["dispatch"].value("kernel", "") : "",
                          text_of(s, "name")});
        fmt::print("{}", rows.size() > 1 ? table(rows, "llr")
                                         : "no session is open; open one: klab session open -- ./program\n");
      });
}

void print_summary(const Cli& cli, const Json& a) {
  const Json& s = a.at("session");
  fmt::print("{} {}: {}, opened {} by {}\n", cli.bold(text_of(s, "id")), text_of(s, "name"),
             text_of(s, "state"), text_of(s, "made_at"), text_of(s, "made_by"));
  if (!s.at("program").empty())
    fmt::print("  program: {}\n", fmt::join(s["program"].get<std::vector<std::string>>(), " "));
  fmt::print("  roots: {}\n", fmt::join(s.at("roots").get<std::vector<std::string>>(), ", "));
  if (a.contains("capture") && a["capture"].contains("dispatches"))
    for (const Json& d : a["capture"]["dispatches"])
      fmt::print("  captured {} (execution {}), {}, proof {}\n", text_of(d, "kernel"), text_of(d, "nth"),
                 format_bytes(d.value("captured_bytes", std::uint64_t{0})), text_of(d["proof"], "state"));
  if (a.contains("source_file")) fmt::print("  source: {}\n", text_of(a, "source_file"));
  const Json& caps = a.at("caps");
  fmt::print("  {} runs of {}\n", text_of(caps, "runs"), text_of(caps, "max_runs"));
  if (a.contains("running"))
    fmt::print("  running: {} (job {})\n", text_of(a["running"], "kind"), text_of(a["running"], "job"));
  if (a.contains("variants"))
    for (const Json& v : a["variants"])
      fmt::print(
          "  variant {} ({}): {}{}\n", text_of(v, "name"), text_of(v, "variant"), text_of(v, "correctness"),
          v["ratio"].is_number() ? fmt::format(", {:.3f} x of the baseline's time", v["ratio"].get<double>())
                                 : "");
  print_next(a, text_of(s, "id"));
}

int do_show(Cli& cli, const SessionOptions& o, std::string view) {
  Json arguments{{"session", o.id}, {"view", view}, {"limit", std::min<std::int64_t>(o.limit, 200)}};
  if (!o.cursor.empty()) arguments["cursor"] = o.cursor;
  if (!o.variant.empty()) arguments["variant"] = o.variant;
  if (o.job > 0) arguments["job"] = o.job;
  if (o.run > 0) arguments["run"] = o.run;
  return finish(cli, "session show", read_here(cli, "session.status", arguments), [&](const Json& a) {
    if (a.contains("text"))
      fmt::print("{}", a["text"].get<std::string>());
    else if (view == "summary")
      print_summary(cli, a);
    else
      for (const Json& item : a.at("items"))
        fmt::print("{}\n", item.dump(-1, ' ', false, Json::error_handler_t::replace));
    if (a.contains("next_cursor")) fmt::print("more: --cursor {}\n", text_of(a, "next_cursor"));
  });
}

int do_capture(Cli& cli, const SessionOptions& o) {
  Json arguments{{"session", o.id}, {"scope", o.scope}, {"dry_run", o.dry_run}, {"limit_s", o.limit_s}};
  if (!o.kernel.empty()) arguments["kernel"] = o.kernel, arguments["nth"] = o.nth;
  if (!o.max_bytes.empty()) {
    std::uint64_t bytes = 0;
    if (!parse_bytes(o.max_bytes, bytes))
      return cli.report({ErrorCode::usage, "--max-bytes " + o.max_bytes + " is not a size",
                         "for example --max-bytes 2GiB", 0});
    arguments["max_bytes"] = bytes;
  }
  return finish(cli, "session capture", cli.call("session.capture", arguments), [&](const Json& a) {
    if (o.dry_run) {
      fmt::print("{} would capture {}\n", text_of(a, "kernel"),
                 format_bytes(a.value("captured_bytes", std::uint64_t{0})));
      return;
    }
    for (const Json& d : a.at("dispatches"))
      fmt::print("captured {} (execution {})\n", cli.bold(text_of(d, "name")), text_of(d, "nth"));
    for (const Json& p : a.at("proofs")) fmt::print("  proof replay: {}\n", text_of(p, "state"));
    fmt::print("  {} in {}\n", format_bytes(a.value("captured_bytes", std::uint64_t{0})),
               text_of(a, "bundle"));
    for (const Json& w : a.at("warnings")) fmt::print("  note: {}\n", w.get<std::string>());
    print_next(a, o.id);
  });
}

int do_save(Cli& cli, const SessionOptions& o) {
  Json arguments{{"session", o.id}, {"variant", o.variant}};
  if (!o.file.empty()) arguments["file"] = absolute_path(o.file);
  if (!o.token.empty()) arguments["token"] = o.token;
  auto answer = cli.call("session.save", arguments);
  if (!answer) return cli.report(answer.error());
  if (answer->value("state", "") == "preview" && !o.dry_run) {
    bool yes = o.yes;
    if (!yes && !cli.json && ::isatty(STDIN_FILENO) == 1) {
      fmt::print("{}\nwrite this to {}? [y/N] ", text_of(*answer, "diff"), text_of(*answer, "file"));
      std::fflush(stdout);
      std::string line;
      std::getline(std::cin, line);
      yes = line == "y" || line == "yes";
      if (!yes) {
        fmt::print("nothing was written\n");
        return 0;
      }
    }
    if (yes) {
      arguments["token"] = (*answer)["token"], arguments["approved"] = true;
      answer = cli.call("session.save", arguments);
    }
  }
  return finish(cli, "session save", std::move(answer), [&](const Json& a) {
    if (text_of(a, "state") == "saved")
      fmt::print("saved {}; undo with: {}\n", text_of(a, "file"), text_of(a, "undo"));
    else if (text_of(a, "state") == "unchanged")
      fmt::print("{} already holds this text\n", text_of(a, "file"));
    else
      fmt::print("{}\nnothing was written; to write it: {}\n", text_of(a, "diff"),
                 text_of(a, "approve_with"));
  });
}

int do_approvals(Cli& cli) {
  return finish(
      cli, "session approvals", read_here(cli, "session.approvals", Json::object()), [&](const Json& a) {
        if (a.at("approvals").empty()) fmt::print("no save waits for a person\n");
        for (const Json& one : a["approvals"])
          fmt::print("{} wants to write {} ({}, variant {}):\n{}approve with: klab session approve {}\n\n",
                     text_of(one, "asked_by"), text_of(one, "file"), text_of(one, "session"),
                     text_of(one, "variant"), text_of(one, "diff"), text_of(one, "token"));
      });
}

int do_events(Cli& cli, const SessionOptions& o) {
  hub::Client here({.alone = true, .start = false});  // the store is here: no hub is needed
  std::int64_t after = o.after;
  for (;;) {
    Json arguments{{"after", after}, {"limit", 200}, {"wait_s", o.follow ? 1.0 : 0.0}};
    if (!o.id.empty()) arguments["session"] = o.id;
    auto answer = here.call("events.wait", arguments, {}, cli.lab.cancelled);
    if (!answer) return cli.report(answer.error());
    for (const Json& e : answer->at("events")) {
      if (cli.json)
        fmt::print("{}\n", e.dump(-1, ' ', false, Json::error_handler_t::replace));
      else
        fmt::print("{} {} {} {}\n", text_of(e, "at"), text_of(e, "session"), text_of(e, "kind"),
                   text_of(e, "detail"));
      after = e.at("id");
    }
    std::fflush(stdout);
    if (cli.lab.cancelled && cli.lab.cancelled()) return 0;
    if (!o.follow && answer->at("events").empty()) return 0;
  }
}

}  // namespace

void add_session_verbs(Cli& cli) {
  auto* session =
      cli.verb("session", "a laboratory that lasts: its captures, variants, runs, verdicts and saves",
               "klab session open -- ./matmul --size 1024");
  session->require_subcommand(1);
  const auto sub = [&](const char* name, const char* purpose, const char* example) {
    return cli.verb(name, purpose, std::string("klab session ") + example, session);
  };
  const auto with_id = [](CLI::App* verb, SessionOptions& o) {
    verb->add_option("session", o.id, "its id")->required();
  };
  auto o = std::make_shared<SessionOptions>();

  auto* open = sub("open", "open one, on a program (after --) or on a bundle",
                   "open --root src -- ./matmul --size 1024");
  open->add_option("--name", o->name, "for people");
  open->add_option("--bundle", o->bundle, "NAME.klab that was captured before; it is never deleted");
  open->add_option("--root", o->roots, "folder that it may read and write under (default: the current one)")
      ->allow_extra_args(false);
  open->add_option("--allow-save", o->allow_save, "folder whose files are saved without asking")
      ->allow_extra_args(false);
  open->add_option("--max-runs", o->max_runs, "cap of runs (default: klab.toml, or 1000)");
  open->add_option("--project", o->folder, "folder to look for klab.toml from (default: the current one)");
  cli.run_on(open, [&cli, o] { return do_open(cli, *o); });

  auto* list = sub("list", "sessions, the newest first", "list --all");
  list->add_flag("-a,--all", o->all, "closed ones too");
  list->add_option("--limit", o->limit, "how many")->capture_default_str();
  cli.run_on(list, [&cli, o] { return do_list(cli, *o); });

  auto* show = sub("show", "what is there of a session", "show s1234567 --view runs");
  with_id(show, *o);
  show->add_option("--view", o->view,
                   "summary, dispatches, variants, runs, comparisons, jobs, events, saves, diff, source, "
                   "disassembly or log")
      ->capture_default_str();
  show->add_option("--variant", o->variant, "of this variant");
  show->add_option("--run", o->run, "this run with its samples");
  show->add_option("--job", o->job, "view log: of this job");
  show->add_option("--cursor", o->cursor, "the page after this one");
  show->add_option("--limit", o->limit, "items of a page")->capture_default_str();
  cli.run_on(show, [&cli, o] { return do_show(cli, *o, o->view); });

  auto* log = sub("log", "the log of its last job", "log s1234567");
  with_id(log, *o);
  log->add_option("--job", o->job, "of this job");
  cli.run_on(log, [&cli, o] { return do_show(cli, *o, "log"); });

  auto* trace = sub("trace", "run its program and list the dispatches by GPU time", "trace s1234567");
  with_id(trace, *o);
  trace->add_option("--time-limit", o->limit_s, "seconds after which the program is ended")
      ->capture_default_str();
  cli.run_on(trace, [&cli, o] {
    return finish(
        cli, "session trace", cli.call("session.trace", {{"session", o->id}, {"limit_s", o->limit_s}}),
        [&](const Json& a) {
          std::vector<std::vector<std::string>> rows{{"total", "share", "calls", "kernel", ""}};
          for (const Json& k : a.at("kernels"))
            rows.push_back(
                {format_ns(k.value("total_ns", 0.0)), fmt::format("{:.1f} %", k.value("share", 0.0) * 100),
                 text_of(k, "calls"), text_of(k, "name"),
                 text_of(k, "refusal").empty() ? "" : "cannot be captured: " + text_of(k, "refusal")});
          fmt::print("{}", table(rows, "rrr"));
          fmt::print("next: klab session capture {} --kernel NAME\n", o->id);
        });
  });

  auto* search = sub("search", "find the kernel's source under its roots", "search s1234567");
  with_id(search, *o);
  search->add_option("--query", o->query, "before a capture: words of the source");
  search->add_option("--root", o->root, "only below this folder");
  cli.run_on(search, [&cli, o] {
    Json arguments{{"session", o->id}};
    if (!o->query.empty()) arguments["query"] = o->query;
    if (!o->root.empty()) arguments["root"] = absolute_path(o->root);
    return finish(cli, "session search", cli.call("session.search", arguments), [&](const Json& a) {
      for (const Json& c : a.at("candidates"))
        fmt::print("{}  [{}]\n", text_of(c, "file"), text_of(c, "evidence"));
      if (!text_of(a, "selected").empty()) fmt::print("selected: {}\n", text_of(a, "selected"));
      if (a["candidates"].empty())
        fmt::print("no candidate; try another --root, or name the file: klab session select {} --file FILE\n",
                   o->id);
    });
  });

  auto* select = sub("select", "say which source file it is, or which dispatch to capture",
                     "select s1234567 --file matmul.comp");
  with_id(select, *o);
  select->add_option("--file", o->file, "the source file");
  select->add_option("--kernel", o->kernel, "the dispatch: its kernel's name");
  select->add_option("--nth", o->nth, "and which execution of it")->capture_default_str();
  cli.run_on(select, [&cli, o] {
    Json arguments{{"session", o->id}};
    if (!o->file.empty()) arguments["file"] = absolute_path(o->file);
    if (!o->kernel.empty()) arguments["dispatch"] = {{"kernel", o->kernel}, {"nth", o->nth}};
    return finish(cli, "session select", cli.call("session.select", arguments), [&](const Json& a) {
      fmt::print("selected: {}\n", o->file.empty() ? a.at("dispatch").dump() : text_of(a, "selected"));
    });
  });

  auto* capture = sub("capture", "take one dispatch out of its program with its inputs",
                      "capture s1234567 --kernel matmul");
  with_id(capture, *o);
  capture->add_option("--kernel", o->kernel,
                      "regular expression on its name, or a hash (default: the selected dispatch)");
  capture->add_option("--nth", o->nth, "which execution of it")->capture_default_str();
  capture->add_option("--scope", o->scope, "reachable or all")
      ->check(CLI::IsMember({"reachable", "all"}))
      ->capture_default_str();
  capture->add_option("--max-bytes", o->max_bytes, "refuse more than this");
  capture->add_flag("-n,--dry-run", o->dry_run, "only say how much it would be");
  capture->add_option("--time-limit", o->limit_s, "seconds after which the program is ended")
      ->capture_default_str();
  cli.run_on(capture, [&cli, o] { return do_capture(cli, *o); });

  add_session_build_verb(cli, session);
  add_session_run_verbs(cli, session);

  auto* save = sub("save", "write a correct variant into the source file; shows the diff, keeps a backup",
                   "save s1234567 --variant faster");
  with_id(save, *o);
  save->add_option("--variant", o->variant, "name or id")->required();
  save->add_option("--file", o->file, "file to write (default: the selected source)");
  save->add_option("--token", o->token, "of a preview that was approved");
  save->add_flag("-y,--yes", o->yes, "do not ask");
  save->add_flag("-n,--dry-run", o->dry_run, "show the diff and write nothing");
  cli.run_on(save, [&cli, o] { return do_save(cli, *o); });

  auto* approvals = sub("approvals", "saves that wait for a person", "approvals");
  cli.run_on(approvals, [&cli] { return do_approvals(cli); });
  auto* approve = sub("approve", "let a save that an agent asked for be written", "approve TOKEN");
  approve->add_option("token", o->token, "as the preview gave it")->required();
  approve->add_flag("--deny", o->deny, "say no");
  cli.run_on(approve, [&cli, o] {
    return finish(
        cli, "session approve", read_here(cli, "session.approve", {{"token", o->token}, {"deny", o->deny}}),
        [&](const Json& a) {
          fmt::print("{}: {}\n", text_of(a.at("approval"), "state"), text_of(a["approval"], "file"));
        });
  });

  auto* report = sub("report", "the evidence of a whole session", "report s1234567 > report.md");
  with_id(report, *o);
  report->add_option("--format", o->format, "markdown or json")
      ->check(CLI::IsMember({"markdown", "json"}))
      ->capture_default_str();
  cli.run_on(report, [&cli, o] {
    return finish(
        cli, "session report",
        read_here(cli, "session.report", {{"session", o->id}, {"format", cli.json ? "json" : o->format}}),
        [&](const Json& a) {
          fmt::print("{}", a.at("report").is_string() ? text_of(a, "report") : a["report"].dump(2) + "\n");
        });
  });

  auto* events = sub("events", "what happened, as it happens with --follow", "events --follow");
  events->add_option("session", o->id, "of this session (default: all)");
  events->add_option("--after", o->after, "number of the last event that is known")->capture_default_str();
  events->add_flag("-f,--follow", o->follow, "go on until ctrl-C");
  cli.run_on(events, [&cli, o] { return do_events(cli, *o); });

  auto* close = sub("close", "delete its captured inputs; results, logs and backups stay", "close s1234567");
  with_id(close, *o);
  cli.run_on(close, [&cli, o] {
    return finish(cli, "session close", cli.call("session.close", {{"session", o->id}}), [&](const Json& a) {
      fmt::print("closed; {} freed\n", format_bytes(a.value("freed_bytes", std::uint64_t{0})));
    });
  });
}

}  // namespace klab::cli
