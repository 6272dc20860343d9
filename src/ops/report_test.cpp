// SPDX-License-Identifier: Apache-2.0
#include "ops/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/test_util.h"
#include "ops/report_html.h"
#include "ops/report_svg.h"
#include "ops/report_test_data.h"

namespace klab::ops {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::Drawn;
using testing::drawn_parts;

Json sealed(Json report) { return *parse_json(seal_report(std::move(report)), "test"); }
Json drawn(const Drawn& d = {}) { return sealed(report_of(drawn_parts(d))); }

/// "name: detail" of each check that failed.
std::vector<std::string> failures(const Json& report) {
  std::vector<std::string> wrong;
  for (const ReportCheck& c : verify_report(report))
    if (c.result == Agreement::failed) wrong.push_back(c.name + ": " + c.detail);
  return wrong;
}

std::vector<std::string> failed_names(const Json& report) {
  std::vector<std::string> names;
  for (const ReportCheck& c : verify_report(report))
    if (c.result == Agreement::failed) names.push_back(c.name);
  return names;
}

TEST(Report, of_a_comparison_agrees_with_itself_and_every_check_looked_at_something) {
  const Json report = drawn();
  EXPECT_EQ(report["verdict"]["speed"], "faster");
  const auto checks = verify_report(report);
  EXPECT_EQ(checks.size(), 12u);
  for (const ReportCheck& c : checks) EXPECT_EQ(c.result, Agreement::ok) << c.name << ": " << c.detail;
}

TEST(Report, of_every_verdict_agrees_with_itself) {
  for (const double ratio : {0.9, 1.1, 1.0, 1.005})
    for (const std::uint32_t drop : {0u, 2u, 9u}) {
      const Json report = drawn({.ratio = ratio, .drop_every = drop});
      EXPECT_THAT(failures(report), ::testing::IsEmpty()) << ratio << " " << drop;
    }
}

TEST(Report, shows_the_share_of_the_speed_of_light_where_a_run_was_placed) {
  EXPECT_THAT(report_html(drawn(), "x.json"), Not(HasSubstr("Speed of light")));
  ReportParts parts = drawn_parts();
  parts.row.detail["roofline"] = {
      {"a", {{"why", "it was not timed"}}},
      {"b",
       {{"share", 0.625}, {"bound", "memory"}, {"achieved_gbs", 2500}, {"memory_roof_gbs", 4000}, {"memory_roof", "copy"}, {"work", {{"source", "given"}}}}}};
  const Json report = sealed(report_of(parts));
  EXPECT_THAT(failures(report), ::testing::IsEmpty());
  const std::string page = report_html(report, "x.json");
  for (const char* words : {"Speed of light", "62.50\u00a0%", "bound by ", "2500 GB/s of 4000"}) EXPECT_THAT(page, HasSubstr(words));
}

TEST(Report, holds_no_path_of_the_machine) {
  const std::string text = drawn().dump();
  EXPECT_THAT(text, Not(HasSubstr("/somewhere")));
  EXPECT_THAT(text, Not(HasSubstr("/home")));
  EXPECT_THAT(text, HasSubstr("gemm.cu"));
}

TEST(Report, many_samples_are_thinned_and_it_says_so) {
  const Json report = drawn({.placements = 16, .blocks = 20, .launches = 40});
  EXPECT_EQ(report["samples"]["a"]["taken"], 16 * 20 * 40 * 2);
  EXPECT_EQ(report["samples"]["a"]["times_ns"].size(), kMostReportSamples);
  EXPECT_THAT(report["notes"].dump(), HasSubstr("20000 of 25600"));
  EXPECT_THAT(failures(report), ::testing::IsEmpty());
}

TEST(Report, of_an_older_or_partial_row_shows_what_there_is) {
  ReportParts parts = drawn_parts();
  parts.row.detail.erase("comparison");
  parts.row.speed = validate::Speed::none;
  parts.dispatch.reset(), parts.b.reset();
  Json report = sealed(report_of(parts));
  EXPECT_THAT(failures(report), ::testing::IsEmpty());
  EXPECT_THAT(report_html(report, "x.json"), HasSubstr("is correct"));
  parts.row.detail = Json();
  parts.row.correctness = validate::Correctness::failed;
  report = sealed(report_of(parts));
  EXPECT_THAT(failures(report), ::testing::IsEmpty());
  EXPECT_THAT(report_html(report, "x.json"), HasSubstr("failed"));
}

TEST(Report, text_that_is_no_utf8_is_replaced_and_can_be_read_back) {
  const Json report = drawn({.placements = 3, .kernel = "bad \xff name"});
  EXPECT_THAT(failures(report), ::testing::IsEmpty());
}

// --- what each check finds. Every change is sealed again: the seal is against damage, the checks are against what does
// not fit together.

struct Change {
  const char* name;  // of the check that must fail
  std::function<void(Json&)> make;
};

class Changed : public ::testing::TestWithParam<Change> {};
TEST_P(Changed, is_found) {
  Json report = drawn();
  GetParam().make(report);
  EXPECT_THAT(failed_names(sealed(report)), ::testing::Contains(GetParam().name)) << ::testing::PrintToString(failures(sealed(report)));
}
// clang-format off
INSTANTIATE_TEST_SUITE_P(Report, Changed, ::testing::Values(
    Change{"schema", [](Json& j) { j["schema"] = "klab.report/2"; }},
    Change{"schema", [](Json& j) { j["more"] = 1; }},
    Change{"schema", [](Json& j) { j.erase("verdict"); }},
    Change{"schema", [](Json& j) { j["verdict"]["speed"] = "amazing"; }},
    Change{"schema", [](Json& j) { j["samples"]["a"]["times_ns"][3] = "x"; }},
    Change{"correctness", [](Json& j) { j["verdict"]["correctness"] = "not_verified"; }},
    Change{"correctness", [](Json& j) { j["validation"]["correctness"] = "incorrect"; }},
    Change{"correctness", [](Json& j) { j.erase("validation"); }},
    Change{"correctness", [](Json& j) { j["validation"]["inputs"][0]["agrees"] = false; }},
    Change{"correctness", [](Json& j) { j["validation"]["oracle"] = {{"no-op", false}}; }},
    Change{"conditions", [](Json& j) { j["conditions"]["ran"]["cache"] = "warm"; }},
    Change{"conditions", [](Json& j) { j["conditions"]["asked"]["mode"] = "sustained"; }},
    Change{"conditions", [](Json& j) { j["conditions"]["asked"]["flush_mb"] = 7; }},
    Change{"conditions", [](Json& j) { j["conditions"] = Json::object(); }},
    Change{"identity", [](Json& j) { j["b"]["code_hash"] = j["a"]["code_hash"]; }},
    Change{"identity", [](Json& j) { j["verdict"]["speed"] = "identical"; }},
    Change{"blocks", [](Json& j) { j.erase("comparison"); }},
    Change{"blocks", [](Json& j) { j["comparison"]["blocks"][4]["a"][0]["time_ns"] = 0; }},
    Change{"blocks", [](Json& j) { j["comparison"]["blocks"][4]["at_s"] = 0.5; }},
    Change{"blocks", [](Json& j) { j["comparison"]["blocks"][4]["placement"] = 4000000000u; }},
    Change{"blocks", [](Json& j) { j["comparison"]["blocks"][4] = 3; }},
    Change{"blocks", [](Json& j) { j["comparison"]["design"]["looks"][0]["alpha"] = 0.049; }},
    Change{"blocks", [](Json& j) { j["comparison"]["design"]["looks"] = Json::array(); }},
    Change{"blocks", [](Json& j) { j["comparison"]["design"]["most_dropped"] = 0.9; }},
    Change{"conclusion", [](Json& j) { j["comparison"]["conclusion"]["interval"]["high"] = 0.5; }},
    Change{"conclusion", [](Json& j) { j["comparison"]["conclusion"]["headline"] = "at least 50 % less time"; }},
    Change{"conclusion", [](Json& j) { j["comparison"]["blocks"][5]["b"][1]["time_ns"] = 60000; }},
    Change{"conclusion", [](Json& j) { j["comparison"]["blocks"].erase(11); }},
    Change{"conclusion", [](Json& j) { j["comparison"]["design"]["seed"] = 2; j["comparison"]["design"]["margin"] = 0.001; }},
    Change{"speed", [](Json& j) { j["verdict"]["speed"] = "slower"; }},
    Change{"speed", [](Json& j) { j["verdict"]["speed"] = "none"; }},
    Change{"speed", [](Json& j) { j["verdict"]["ratio"] = 0.8; }},
    Change{"speed", [](Json& j) { j["comparison"]["interrupted"] = true; }},
    Change{"floor", [](Json& j) { j["comparison"].erase("floor"); }},
    Change{"floor", [](Json& j) { j["comparison"]["floor"]["value"] = 0.02; }},
    Change{"floor", [](Json& j) { j["comparison"]["design"]["delta"] = 0.001; }},
    Change{"dropped", [](Json& j) { j["comparison"]["conclusion"]["dropped"] = {{"thermal slowdown", 3}}; }},
    Change{"dropped", [](Json& j) { for (std::size_t i = 0; i < 60; i += 2) j["comparison"]["blocks"][i]["dropped"] = "noise"; }},
    Change{"samples of A", [](Json& j) { j["samples"]["a"]["times_ns"][100] = 20000; j["samples"]["a"]["times_ns"][101] = 20000;
                                         for (int i = 96; i < 108; ++i) j["samples"]["a"]["times_ns"][i] = 20000; }},
    Change{"samples of A", [](Json& j) { j["samples"]["a"]["times_ns"] = Json::array(); }},
    Change{"samples of B", [](Json& j) { for (Json& t : j["samples"]["b"]["times_ns"]) t = t.get<double>() * 0.5; }},
    Change{"samples of B", [](Json& j) { j["samples"]["b"]["times_ns"].erase(0); j["samples"]["b"]["taken"] = 5; }}));
// clang-format on

TEST(Verify, a_changed_byte_that_no_arithmetic_sees_breaks_the_seal) {
  Json report = drawn();
  report["notes"][0] = "replayed on the same device as the captured one";
  EXPECT_THAT(failed_names(report), ::testing::ElementsAre("seal"));
}

TEST(Verify, anything_may_be_given) {
  for (const char* text : {"null", "[]", "{}", "3", "\"text\"", R"({"schema":"klab.report/1"})"}) {
    const Json j = *parse_json(text, "t");
    EXPECT_FALSE(agrees(verify_report(j))) << text;
    EXPECT_TRUE(parse_json(seal_report(j), "t")) << text;
    EXPECT_THAT(report_html(j, "x.json"), HasSubstr("</html>")) << text;
  }
  // Each member in turn made each other kind of value; and each number a strange one.
  const Json whole = drawn({.placements = 3, .blocks = 2, .launches = 2});
  const std::function<void(Json&, Json&)> visit = [&](Json& root, Json& part) {
    for (Json& child : part) {
      const Json kept = child;
      for (const Json& other : {Json(), Json(-1), Json(1e308), Json("<"), Json::array({1}), Json::object()}) {
        child = other;
        (void)verify_report(root);
        (void)report_html(root, "x");
      }
      child = kept;
    }
  };
  Json root = whole;
  visit(root, root);
  for (const char* name : {"verdict", "comparison", "samples", "kernel", "a", "validation"}) visit(root, root[name]);
  for (const char* name : {"design", "conclusion", "environment", "floor", "warm_up", "spent_s"}) visit(root, root["comparison"][name]);
  visit(root, root["comparison"]["blocks"][0]);
  visit(root, root["comparison"]["blocks"][0]["a"][0]);
  visit(root, root["comparison"]["environment"]["samples"][0]);
  visit(root, root["comparison"]["design"]["looks"][0]);
  visit(root, root["comparison"]["conclusion"]["interval"]);
}

TEST(ReadReport, refuses_what_is_no_json_and_says_what_to_give) {
  const TestFolder folder;
  EXPECT_EQ(read_report(folder / "none.json").error().code, ErrorCode::not_found);
  const auto bad = read_report(folder.add("bad.json", "<html>"));
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, ErrorCode::invalid_data);
  EXPECT_THAT(bad.error().hint, HasSubstr("--verify"));
}

TEST(Html, text_of_others_is_escaped_everywhere) {
  EXPECT_EQ(escape_html("a<b>&\"'\x01\xef\xbf\xbe"), "a&lt;b&gt;&amp;&quot;&#39;\uFFFD\uFFFD");
  Json report = drawn({.drop_every = 7});
  // Into every string that there is.
  const std::function<void(Json&)> poison = [&](Json& j) {
    if (j.is_string() && j != "faster" && j != "correct" && j != "none" && j != "nvml" && j != "BAAB" && j != "ABBA")
      j = "<script>alert(1)</script>\" onload='x'";
    else if (j.is_structured())
      for (Json& child : j) poison(child);
  };
  poison(report);
  report["validation"]["oracle"]["<script>"] = true;
  report["comparison"]["spent_s"]["<script>"] = 1;
  report["comparison"]["environment"]["limits"]["<script>"] = 1;
  report["b"]["options"]["<script>"] = 1;
  report["comparison"]["conclusion"]["dropped"]["<script>"] = 1;
  const std::string html = report_html(report, "<script>.json");
  EXPECT_THAT(html, HasSubstr("&lt;script&gt;"));
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_THAT(html, Not(HasSubstr("' onload")));
  EXPECT_THAT(html, Not(HasSubstr("\" onload")));
}

TEST(Html, asks_for_nothing_from_outside) {
  const std::string html = report_html(drawn(), "x.json");
  EXPECT_THAT(html, HasSubstr("default-src 'none'; style-src 'unsafe-inline'"));
  for (const char* word : {"http:", "https:", "src=", "href=", "url(", "@import", "<script", "<link", "<img", "onclick"})
    EXPECT_EQ(html.find(word), std::string::npos) << word;
}

TEST(Html, says_the_verdict_and_the_bound_that_is_nearer_to_one) {
  const Json report = drawn();
  const double high = report["comparison"]["conclusion"]["interval"]["high"];
  EXPECT_THAT(report_html(report, "x"), HasSubstr(fmt::format("B wide is faster: at least {:.2f}\u00a0% less time", 100 * (1 - high))));
  EXPECT_THAT(report_html(drawn({.ratio = 1.2}), "x"), HasSubstr("B wide is slower: at least"));
  EXPECT_THAT(report_html(drawn({.drop_every = 2}), "x"), HasSubstr("No claim: the device was disturbed"));
  EXPECT_THAT(report_html(drawn({.clocks = false}), "x"), HasSubstr("Clocks were not observed"));
  Json wrong = report;
  wrong["verdict"]["correctness"] = "incorrect";
  EXPECT_THAT(report_html(wrong, "x"), HasSubstr("B wide is incorrect"));
  EXPECT_THAT(report_html(wrong, "x"), Not(HasSubstr("is faster")));
}

TEST(Scale, has_few_round_ticks_for_any_numbers) {
  const auto ticks = Scale(0.93, 1.02, 0, 100).ticks(6);
  ASSERT_EQ(ticks.size(), 5u);
  EXPECT_NEAR(ticks[0], 0.94, 1e-12);
  EXPECT_EQ(tick_text(ticks[0], 0.02), "0.94");
  for (const double low : {-1e308, -1.0, 0.0, 1e-300, 1e308, double(INFINITY), double(NAN)})
    for (const double high : {-1e308, 0.0, 1.0, 1e308, double(NAN)}) {
      const Scale s(low, high, 0, 100);
      EXPECT_LE(s.ticks(8).size(), 12u);
      for (const double v : {low, high, 0.5}) EXPECT_TRUE(s(v) >= 0 && s(v) <= 100) << low << " " << high;
    }
}

}  // namespace
}  // namespace klab::ops
