// SPDX-License-Identifier: Apache-2.0
// report: a comparison as a page and data, and whether such data agree with themselves.
#include <fmt/format.h>

#include "cli/cli.h"
#include "ops/report.h"

namespace klab::cli {
namespace {

struct ReportOptions {
  std::string bundle, html, data, verify;
  std::int64_t comparison = 0;
  bool force = false, list = false;
};

int do_verify(Cli& cli, const std::string& file) {
  auto report = ops::read_report(file);
  if (!report) return cli.report(report.error());
  const auto checks = ops::verify_report(*report);
  const bool agrees = ops::agrees(checks);
  const int code = agrees ? 0 : 3;
  if (cli.json) {
    cli.print_json("report", {{"file", file}, {"agrees", agrees}, {"checks", checks}});
    return code;
  }
  std::size_t skipped = 0;
  for (const ops::ReportCheck& check : checks) {
    const bool bad = check.result == ops::Agreement::failed, skip = check.result == ops::Agreement::skipped;
    skipped += skip ? 1 : 0;
    fmt::print("  {}  {}: {}\n",
               bad    ? cli.bad("differs")
               : skip ? cli.warn("nothing")
                      : cli.good("ok     "),
               check.name, check.detail);
  }
  fmt::print("{}\n", agrees
                         ? "the report agrees with itself" +
                               (skipped == 0 ? std::string()
                                             : fmt::format("; {} checks found nothing to look at", skipped))
                         : cli.bad("the report does not agree with itself"));
  return code;
}

int do_list(Cli& cli, const ReportOptions& o) {
  auto list = ops::list_comparisons(cli.lab, o.bundle);
  if (!list) return cli.report(list.error());
  if (cli.json) {
    cli.print_json("report", {{"comparisons", std::move(*list)}});
    return 0;
  }
  std::vector<std::vector<std::string>> rows{
      {"comparison", "at", "variant", "against", "correctness", "speed", "ratio"}};
  for (const Json& one : *list) {
    const double ratio = one.value("ratio", 0.0);
    rows.push_back({std::to_string(one.value("id", std::int64_t{0})), one.value("at", ""),
                    one.value("variant_name", ""), one.value("against_name", ""),
                    one.value("correctness", ""), one.value("speed", ""),
                    ratio > 0 ? fmt::format("{:.4f}", ratio) : "-"});
  }
  fmt::print("{}", table(rows, "r     r"));
  return 0;
}

int do_report(Cli& cli, const ReportOptions& o) {
  if (!o.verify.empty()) {
    if (!o.bundle.empty() || o.comparison != 0 || o.list || !o.html.empty() || !o.data.empty())
      return cli.report({ErrorCode::usage, "--verify takes a file, and nothing else",
                         "klab report --verify NAME-report.json", 0});
    return do_verify(cli, o.verify);
  }
  if (o.list) {
    if (o.bundle.empty())
      return cli.report({ErrorCode::usage, "--list needs a bundle", "klab report NAME.klab --list", 0});
    return do_list(cli, o);
  }
  auto done = ops::write_report(cli.lab, {.bundle = o.bundle, .comparison = o.comparison},
                                {.html = o.html, .data = o.data, .replace = o.force});
  if (!done) return cli.report(done.error());
  const Json& verdict = done->report.at("verdict");
  if (cli.json) {
    cli.print_json("report", {{"comparison", verdict.at("comparison")},
                              {"verdict", verdict},
                              {"html", absolute_path(done->html.string())},
                              {"data", absolute_path(done->data.string())}});
    return 0;
  }
  fmt::print("comparison {}: {} ({}, speed: {})\n", verdict.at("comparison").dump(),
             cli.bold(done->report.at("kernel").value("name", "")),
             verdict.at("correctness").get<std::string>(), verdict.at("speed").get<std::string>());
  fmt::print("  page: {}\n  data: {}\n", done->html.string(), done->data.string());
  fmt::print("check it anywhere: klab report --verify {}\n", done->data.string());
  return 0;
}

}  // namespace

void add_report_verb(Cli& cli) {
  auto options = std::make_shared<ReportOptions>();
  auto* verb = cli.verb(
      "report", "a comparison as one page, with data that can be checked elsewhere",
      "klab report saxpy.klab                       # the newest comparison: saxpy-report.html and .json\n"
      "  klab report saxpy.klab --list\n"
      "  klab report --comparison 7 -o seven.html\n"
      "  klab report --verify saxpy-report.json       # exit code 3 when something does not agree");
  verb->add_option("bundle", options->bundle, "NAME.klab");
  verb->add_option("--comparison", options->comparison,
                   "its number (--list; default: the newest of the bundle)")
      ->check(CLI::PositiveNumber);
  verb->add_option("-o,--output", options->html, "the page (default: NAME-report.html here)");
  verb->add_option("--data", options->data, "the data (default: beside the page, .json)");
  verb->add_flag("--force", options->force, "replace files that are there");
  verb->add_flag("--list", options->list, "the comparisons of the bundle, newest first");
  verb->add_option("--verify", options->verify,
                   "compute everything in this data file again; needs no GPU and no capture");
  cli.run_on(verb, [&cli, options] { return do_report(cli, *options); });
}

}  // namespace klab::cli
