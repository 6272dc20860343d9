// SPDX-License-Identifier: Apache-2.0
#include "ops/report_html.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/units.h"
#include "ops/report_charts.h"
#include "ops/report_fields.h"
#include "ops/report_style.h"
#include "validate/verdict.h"

namespace klab::ops {
namespace {

using namespace fields;
using measure::Block;

constexpr std::size_t kMostRows = 2000;  // of the table of blocks
constexpr double kWide = 860, kSmall = 340;

/// Text of others within a line: whatever its direction, it cannot turn ours around.
std::string foreign(const Json& j, std::size_t most = 2000) {
  std::string words = text(j);
  if (words.size() > most) {
    std::size_t end = most;
    while (end > 0 && (static_cast<unsigned char>(words[end]) & 0xc0) == 0x80) --end;
    words = words.substr(0, end) + "\u2026";
  }
  return "<bdi>" + escape_html(words) + "</bdi>";
}

std::string dimensions(const Json& j) {
  std::string words;
  if (j.is_array())
    for (const Json& n : j) words += (words.empty() ? "" : " \u00d7 ") + text(n).substr(0, 20);
  return words;
}

/// Rows of a name and a value, in HTML already; rows without a value are left out.
class Facts {
 public:
  Facts& add(std::string_view name, const std::string& html) {
    if (!html.empty() && html != "<bdi></bdi>")
      rows_ += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td></tr>", escape_html(name), html);
    return *this;
  }
  std::string table() const {
    return rows_.empty() ? "" : "<table class=\"facts\"><tbody>" + rows_ + "</tbody></table>";
  }

 private:
  std::string rows_;
};

struct Headline {
  std::string sign, kind, words, more;  // `kind`: good, bad, plain, warn
};

/// "5.20 % less time", of a ratio of B's time over A's.
std::string change(double ratio) {
  return percent_text(std::abs(1 - ratio)) + (ratio < 1 ? " less time" : " more time");
}

Headline headline_of(const ReportView& v) {
  const std::string correctness = text(at(v.report, "verdict", "correctness")),
                    speed = text(at(v.report, "verdict", "speed"));
  const std::string b = v.who(true), a = v.who(false);
  if (correctness != "correct") {
    if (correctness == "incorrect")
      return {"\u2715", "bad", b + " is incorrect",
              "It does not compute what the captured kernel computed, so nothing is said of its speed."};
    if (correctness == "failed")
      return {"\u2715", "bad", b + " failed", "It did not run to its end, so nothing is said of its speed."};
    return {"?", "warn", b + " is not verified",
            "It could not be shown to compute the same, so nothing is said of its speed."};
  }
  if (speed == "identical")
    return {"=", "plain", b + " is identical to " + a,
            "The machine code and the launch are equal, so it was not timed."};
  if (!v.comparison || speed == "none")
    return {"\u2713", "plain", b + " is correct", "Its speed was not compared."};
  const measure::Conclusion& c = v.comparison->conclusion;
  const double delta = v.comparison->design.delta();
  const std::string reason = c.reason.empty() ? "" : c.reason + ".";
  const std::string estimate = fmt::format("Best estimate: {}.", change(c.interval.ratio));
  if (speed == "faster")
    return {"\u25bc", "good", fmt::format("{} is faster: at least {}", b, change(c.interval.high)), estimate};
  if (speed == "slower")
    return {"\u25b2", "bad", fmt::format("{} is slower: at least {}", b, change(c.interval.low)), estimate};
  if (speed == "equivalent")
    return {"=", "plain", fmt::format("{} and {} take the same time, within {}", a, b, percent_text(delta)),
            "A difference that small does not matter here."};
  if (speed == "unstable") return {"!", "warn", "No claim: the device was disturbed too often", reason};
  if (speed == "clock_dependent")
    return {"!", "warn", "No claim: the clock was not the same for both", reason};
  if (v.comparison->interrupted) return {"?", "warn", "No claim: the comparison was interrupted", reason};
  return {"?", "warn", fmt::format("Not shown either way: {} may be faster or slower", b), reason};
}

std::string card(std::string_view name, const std::string& html, std::string_view more = {}) {
  return fmt::format("<div class=\"card\"><dt>{}</dt><dd>{}</dd>{}</div>", escape_html(name), html,
                     more.empty() ? "" : fmt::format("<dd class=\"more\">{}</dd>", escape_html(more)));
}

std::string cards(const ReportView& v) {
  std::string html;
  const Json& validation = at(v.report, "validation");
  if (v.comparison) {
    const measure::Conclusion& c = v.comparison->conclusion;
    if (c.interval.bounded()) {
      html += card("B\u2019s time over A\u2019s", fmt::format("{:.4f}", c.interval.ratio),
                   fmt::format("{:.4f} to {:.4f}, {:.4g} % interval", c.interval.low, c.interval.high,
                               100 * (1 - c.interval.alpha)));
    }
    html +=
        card("Counts as a difference", "over " + percent_text(v.comparison->design.delta()),
             fmt::format("the larger of margin {} and floor {}", percent_text(v.comparison->design.margin),
                         percent_text(v.comparison->design.floor)));
    html += card("Rests on", fmt::format("{} blocks", c.blocks - std::min(c.blocks, c.blocks_dropped)),
                 fmt::format("in {} placements; {} more dropped", c.placements, c.blocks_dropped));
  }
  html += card("Correctness", foreign(at(v.report, "verdict", "correctness")),
               validation.is_object()
                   ? fmt::format("{} on {} input{}", text(at(validation, "level")).substr(0, 20),
                                 text(at(validation, "inputs_tried")).substr(0, 20),
                                 at(validation, "inputs_tried") == 1 ? "" : "s")
                   : "");
  return "<dl class=\"cards\">" + html + "</dl>";
}

using Chart = std::string (*)(const ReportView&, double);

/// Drawn twice, for wide and for small screens; the style shows one.
std::string figure(const ReportView& v, Chart chart, const std::string& caption_html) {
  const std::string wide = chart(v, kWide), small = chart(v, kSmall);
  if (wide.empty()) return {};
  return fmt::format(
      "<figure><div class=\"wide\">{}</div><div class=\"small\">{}</div><figcaption>{}</figcaption></figure>",
      wide, small, caption_html);
}

std::string section(std::string_view title, const std::string& html) {
  return html.empty() ? "" : fmt::format("<section><h2>{}</h2>{}</section>", escape_html(title), html);
}

const char kKeyA[] = "<span class=\"key round a\"></span> A", kKeyB[] = "<span class=\"key b\"></span> B";

std::string correctness_section(const ReportView& v) {
  const Json& validation = at(v.report, "validation");
  std::string html =
      fmt::format("<p><strong>{}</strong>: {}.</p>", foreign(at(v.report, "verdict", "correctness")),
                  foreign(at(v.report, "verdict", "reason")));
  if (const Json& inputs = at(validation, "inputs"); inputs.is_array() && !inputs.empty()) {
    std::string rows;
    for (std::size_t i = 0; i < inputs.size() && i < 100; ++i)
      rows += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td></tr>", foreign(at(inputs[i], "kind")),
                          foreign(at(inputs[i], "what")), foreign(at(inputs[i], "result")));
    html +=
        "<div "
        "class=\"scroll\"><table><thead><tr><th>input</th><th>which</th><th>result</th></tr></thead><tbody>" +
        rows + "</tbody></table></div>";
  }
  if (const Json& oracle = at(validation, "oracle"); oracle.is_object() && !oracle.empty()) {
    std::string caught, missed;
    for (const auto& [name, was] : oracle.items())
      (flag(was) ? caught : missed) +=
          ((flag(was) ? caught : missed).empty() ? "" : ", ") + name.substr(0, 60);
    html += fmt::format("<p class=\"note\">The check itself was tried on wrong kernels. It caught: {}.{}</p>",
                        escape_html(caught.empty() ? "none" : caught),
                        missed.empty() ? "" : " It did not catch: " + escape_html(missed) + ".");
  }
  if (const Json& differences = at(validation, "differences");
      differences.is_array() && !differences.empty()) {
    std::string rows;
    for (std::size_t i = 0; i < differences.size() && i < 100; ++i) {
      const Json& d = differences[i];
      rows += fmt::format(
          "<tr><td>{} {}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td><td>{}</td></tr>",
          foreign(at(d, "region")), foreign(at(d, "name")), foreign(at(d, "differing_bytes")),
          foreign(at(d, "first_offset")),
          foreign(at(d, "expected_value").is_null() ? at(d, "expected") : at(d, "expected_value")),
          foreign(at(d, "actual_value").is_null() ? at(d, "actual") : at(d, "actual_value")));
    }
    html +=
        "<div class=\"scroll\"><table><thead><tr><th>region</th><th>bytes that differ</th><th>first "
        "at</th><th>expected</th><th>got</th></tr></thead><tbody>" +
        rows + "</tbody></table></div>";
  }
  return section("Does it compute the same?", html);
}

std::string clocks_section(const ReportView& v) {
  const Json& j = at(v.report, "comparison");
  if (!j.is_object()) return {};
  const Json& environment = at(j, "environment");
  const std::string source = text(at(environment, "source")), clocks = text(at(j, "clocks"));
  std::string html;
  if (source.empty() || source == "none") {
    html = clocks.empty() || clocks == "not observed"
               ? fmt::format("<p><strong>Clocks were not observed</strong>{}.</p>",
                             at(environment, "why").is_null() ? " (the report does not say why)"
                                                              : ": " + foreign(at(environment, "why")))
               : fmt::format("<p>Clocks were {}.</p>", foreign(at(j, "clocks")));
  } else {
    html = fmt::format("<p>Observed by {}, never changed; one sample for each block.</p>",
                       foreign(at(environment, "source")));
  }
  std::string caption;
  if (std::any_of(v.environment.begin(), v.environment.end(),
                  [](const Json* s) { return at(*s, "reasons").is_array(); }))
    caption =
        "<span class=\"key cross\">\u00d7</span> a reason for a lower clock was given: point at it to read "
        "it. ";
  if (v.comparison && !v.comparison->blocks.empty() && v.comparison->blocks[0].a[0].clock_mhz)
    caption += fmt::format("Clocks of letters: {} &#160; {}", kKeyA, kKeyB);
  html += figure(v, clock_charts, caption);
  if (v.comparison && v.comparison->conclusion.cycles) {
    const auto& c = *v.comparison->conclusion.cycles;
    html += fmt::format(
        "<p>In cycles of the processors\u2019 clock B takes {:.4f} of A ({:.4f} to {:.4f}). Were this "
        "another verdict than that of time, nothing would be claimed.</p>",
        c.ratio, c.low, c.high);
  }
  if (const Json& limits = at(environment, "limits"); limits.is_object()) {
    Facts facts;
    for (const auto& [name, value] : limits.items()) facts.add(name.substr(0, 60), foreign(value, 200));
    html += facts.table();
  }
  return section("Clocks, power and temperature", html);
}

std::string seconds(const Json& j) {
  const auto s = number(j);
  return s ? fmt::format("{:.3g} s", *s) : "";
}

std::string method_section(const ReportView& v) {
  const Json &j = at(v.report, "comparison"), &ran = at(v.report, "conditions", "ran");
  Facts facts;
  facts.add("Each launch",
            foreign(at(ran, "mode")) +
                (text(at(ran, "cache")).empty() ? "" : ", cache " + foreign(at(ran, "cache"))) +
                (text(at(ran, "memory")).empty() ? "" : ", memory " + foreign(at(ran, "memory"))));
  if (const double mb = number_or(at(ran, "flush_mb"), 0); mb > 0)
    facts.add("Put through the caches", fmt::format("{:.0f} MiB before each launch", mb));
  facts.add(
      "Addresses",
      foreign(at(v.report, "address_mode")) +
          (text(at(v.report, "address_by")).empty() ? "" : ", by " + foreign(at(v.report, "address_by"))));
  if (v.comparison) {
    const measure::Design& d = v.comparison->design;
    const measure::Conclusion& c = v.comparison->conclusion;
    facts.add(
        "Block",
        fmt::format("ABBA or BAAB, balanced by chance; launches in a letter: {}. Its value is half of ln "
                    "B\u2081 + ln B\u2082 \u2212 ln A\u2081 \u2212 ln A\u2082, each a median of a letter",
                    foreign(at(j, "launches_per_letter"))));
    facts.add("Placement", foreign(at(j, "placement")));
    std::string looks;
    for (std::size_t i = 0; i < d.looks.size() && i < 20; ++i)
      looks += fmt::format("{}after {} placements (\u03b1 {:.4g})", i == 0 ? "" : ", ", d.looks[i].placements,
                           d.looks[i].alpha);
    facts.add("Looks at the data", fmt::format("{}; it ended at look {}", looks, c.look));
    facts.add("Interval", fmt::format("mean of the placements\u2019 means; the wider of Student\u2019s and a "
                                      "bootstrap over placements and blocks: here {}",
                                      escape_html(c.interval.from)));
    const Json& floor = at(j, "floor");
    std::string how = fmt::format("{}: what two copies of one module differ by", percent_text(d.floor));
    if (const std::string name = text(at(floor, "class")); !name.empty())
      how += ", for " + foreign(at(floor, "class"));
    if (flag(at(floor, "measured")))
      how += ", measured just before";
    else if (!at(floor, "at").is_null())
      how += ", measured " + foreign(at(floor, "at"));
    if (at(floor, "keep").is_boolean() && !flag(at(floor, "keep")))
      how += "; the device was disturbed meanwhile, so it is not used again";
    facts.add("Floor", how);
    facts.add("Margin", fmt::format("{}; \u03b4 = max(margin, floor) = {}", percent_text(d.margin),
                                    percent_text(d.delta())));
    facts.add("Dropped", fmt::format("at most {} of the blocks, chosen without a look at their times",
                                     percent_text(d.most_dropped)));
    for (const auto& [why, n] : c.dropped) facts.add("", fmt::format("{} \u00d7 {}", n, foreign(Json(why))));
    facts.add("Seed", std::to_string(d.seed));
  }
  const Json& warm = at(j, "warm_up");
  if (warm.is_object())
    facts.add("Warm-up", fmt::format("{}, {} windows of 0.1 s; {}", seconds(at(warm, "seconds")),
                                     foreign(at(warm, "windows")),
                                     flag(at(warm, "settled"))
                                         ? "the last three agreed"
                                         : "the last three did <strong>not</strong> agree within 0.5 %"));
  if (const Json& spent = at(j, "spent_s"); spent.is_object()) {
    std::string parts;
    for (const auto& [name, value] : spent.items()) {
      std::string words = name.substr(0, 40);
      std::replace(words.begin(), words.end(), '_', ' ');
      parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", escape_html(words), seconds(value));
    }
    facts.add("Time spent", parts + (number(at(j, "budget_s"))
                                         ? fmt::format("; of a budget of {}", seconds(at(j, "budget_s")))
                                         : ""));
  }
  if (const auto step = number(at(j, "timer_step_ns")))
    facts.add("Timer", fmt::format("tells {} apart", format_ns(*step)));
  return section("How it was measured", facts.table());
}

/// A run under the roofs of its device, as stored (ops/roofline.h); empty where it was not placed.
std::string roofline_text(const Json& r) {
  if (!r.is_object() || at(r, "why").is_string()) return "";
  std::string html;
  const auto rate = [&](const char* achieved, const char* roof, const char* name, const char* unit) {
    if (const auto value = number(at(r, achieved))) {
      html += fmt::format("<div>{:.4g} {}", *value, unit);
      if (const auto most = number(at(r, roof))) html += fmt::format(" of {:.4g} ({})", *most, foreign(at(r, name)));
      html += "</div>";
    }
  };
  if (const auto share = number(at(r, "share")))
    html += fmt::format("<div>{} of the roof, bound by {}</div>", percent_text(*share), foreign(at(r, "bound")));
  rate("achieved_gbs", "memory_roof_gbs", "memory_roof", "GB/s");
  rate("achieved_gflops", "compute_roof_gflops", "compute_roof", "GFLOP/s");
  if (flag(at(r, "impossible"))) html += fmt::format("<div><strong>impossible</strong>: {}</div>", foreign(at(r, "sentence"), 600));
  return html + fmt::format("<div class=\"dim\">work by {}</div>", foreign(at(r, "work", "source")));
}

std::string sides_section(const ReportView& v) {
  const Json* sides[] = {&at(v.report, "a"), &at(v.report, "b")};
  std::string rows;
  const auto row = [&](std::string_view name, const std::string& a, const std::string& b) {
    const auto empty = [](const std::string& s) { return s.empty() || s == "<bdi></bdi>"; };
    if (empty(a) && empty(b)) return;
    rows += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td></tr>", escape_html(name),
                        empty(a) ? "\u2013" : a, empty(b) ? "\u2013" : b);
  };
  const auto member = [&](std::string_view name, const char* key) {
    row(name, foreign(at(*sides[0], key)), foreign(at(*sides[1], key)));
  };
  const auto object = [&](std::string_view name, const char* key) {
    std::string html[2];
    for (int i = 0; i < 2; ++i) {
      const Json& o = at(*sides[i], key);
      if (o.is_object())
        for (const auto& [k, value] : o.items()) {
          if (value.is_null() || (value.is_string() && value == "") ||
              ((value.is_array() || value.is_object()) && value.empty()) || value == false)
            continue;
          html[i] += fmt::format("<div><span class=\"dim\">{}</span> {}</div>", escape_html(k.substr(0, 60)),
                                 foreign(value, 600));
        }
    }
    row(name, html[0], html[1]);
  };
  member("Variant", "label");
  member("Id", "variant");
  row("Code", flag(at(*sides[0], "captured")) ? "as captured" : "",
      flag(at(*sides[1], "captured")) ? "as captured" : "");
  member("Code hash", "code_hash");
  member("Compiler", "compiler");
  object("Options", "options");
  object("Launch changes", "launch");
  object("Source", "source");
  object("Resources", "resources");
  row("Speed of light", roofline_text(at(*sides[0], "roofline")), roofline_text(at(*sides[1], "roofline")));
  std::string html = fmt::format(
      "<div class=\"scroll\"><table "
      "class=\"facts\"><thead><tr><th></th><th>{}</th><th>{}</th></tr></thead><tbody>{}</tbody></table></"
      "div>",
      "A", "B", rows);
  const Json &kernel = at(v.report, "kernel"), &device = at(v.report, "device"),
             &bundle = at(v.report, "bundle");
  Facts facts;
  facts.add("Kernel", foreign(at(kernel, "name"), 20000))
      .add("Entry point", foreign(at(kernel, "entry_point")));
  facts.add("Dispatch",
            foreign(at(kernel, "dispatch")) +
                (at(kernel, "nth").is_null()
                     ? ""
                     : ", execution " + foreign(at(kernel, "nth")) + " in the program" +
                           (text(at(kernel, "call")).empty() ? "" : ", by " + foreign(at(kernel, "call")))));
  facts.add("Grid, block",
            escape_html(dimensions(at(kernel, "grid"))) +
                (at(kernel, "block").is_null() ? "" : "; " + escape_html(dimensions(at(kernel, "block")))));
  facts.add("Capture",
            foreign(at(bundle, "name")) + " " + foreign(at(bundle, "id")) +
                (text(at(bundle, "made_at")).empty() ? "" : ", made " + foreign(at(bundle, "made_at"))));
  facts.add("Device", foreign(at(device, "name")) + " (" + foreign(at(device, "api")) + ", " +
                          foreign(at(device, "type")) + ")");
  facts.add("Driver", foreign(at(device, "driver")) + " " + foreign(at(device, "driver_version")));
  return section("What was compared", html + facts.table());
}

std::string notes_section(const Json& notes) {
  std::string items;
  if (notes.is_array())
    for (std::size_t i = 0; i < notes.size() && i < 200; ++i) items += "<li>" + foreign(notes[i]) + "</li>";
  return items.empty() ? "" : section("Notes", "<ul>" + items + "</ul>");
}

std::string blocks_section(const ReportView& v) {
  if (!v.comparison || v.comparison->blocks.empty()) return {};
  const auto& blocks = v.comparison->blocks;
  std::string rows;
  for (std::size_t i = 0; i < blocks.size() && i < kMostRows; ++i) {
    const Block& b = blocks[i];
    const auto letter = [](const measure::Letter& l) {
      return fmt::format("<td class=\"n\">{:.1f}</td>", l.time_ns / 1e3);
    };
    rows += fmt::format(
        "<tr{}><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td><td "
        "class=\"n\">{:.2f}</td>{}{}{}{}<td class=\"n\">{:.5f}</td><td>{}</td></tr>",
        b.dropped.empty() ? "" : " class=\"gone\"", i, std::uint64_t{b.placement} + 1,
        b.starts_with_b ? "BAAB" : "ABBA", b.at_s, letter(b.a[0]), letter(b.a[1]), letter(b.b[0]),
        letter(b.b[1]), std::exp(b.log_ratio()), b.dropped.empty() ? "" : foreign(Json(b.dropped), 120));
  }
  return fmt::format(
      "<section><details><summary>All {} blocks{}</summary><div "
      "class=\"scroll\"><table><thead><tr><th>block</th><th>placement</th><th>order</th><th>at, "
      "s</th><th>A1, \u00b5s</th>"
      "<th>A2, \u00b5s</th><th>B1, \u00b5s</th><th>B2, "
      "\u00b5s</th><th>ratio</th><th>dropped</th></tr></thead><tbody>{}</tbody></table></div></details></"
      "section>",
      blocks.size(), blocks.size() > kMostRows ? fmt::format(" (the first {} are shown)", kMostRows) : "",
      rows);
}

std::string page(const Json& report, std::string_view data_file) {
  const ReportView v(report);
  const Headline h = headline_of(v);
  const std::string kernel = text(at(report, "kernel", "name"));
  std::string body = fmt::format(
      "<header><p class=\"kicker\">Klab report \u00b7 comparison {} \u00b7 {}</p><h1 class=\"{}\"><span "
      "class=\"sign\" aria-hidden=\"true\">{}</span>{}</h1><p class=\"lead\">{}</p>"
      "<p class=\"what\"><code>{}</code><br/>on {}</p>{}</header><main>",
      foreign(at(report, "verdict", "comparison")), foreign(at(report, "verdict", "at")), h.kind, h.sign,
      escape_html(h.words), escape_html(h.more), foreign(at(report, "kernel", "name"), 400),
      foreign(at(report, "device", "name")), cards(v));
  std::string interval = figure(v, interval_chart,
                                "The bar is the interval for B\u2019s time over A\u2019s, the large dot the "
                                "estimate, the small dots the means of single placements. "
                                "<span class=\"key same\"></span> no difference that matters: a verdict "
                                "needs the whole bar inside it, or outside.");
  if (v.comparison && interval.empty()) interval = "<p>There are too few placements for an interval.</p>";
  body += section("How sure is it?", interval);
  body += correctness_section(v);
  std::string shown =
      "Each on the same axis; the line is the median. Single launches of one letter follow each other "
      "closely, so the verdict rests on blocks, not on these.";
  for (const char* side : {"a", "b"})
    if (const Json& s = at(report, "samples", side);
        number_or(at(s, "kept"), 0) < number_or(at(s, "taken"), 0))
      shown += fmt::format(" {}: {} of {} launches, evenly thinned.", side[0] == 'a' ? "A" : "B",
                           foreign(at(s, "kept")), foreign(at(s, "taken")));
  body += section("Launches", figure(v, distribution_chart, shown));
  body += section("Blocks over time",
                  figure(v, ratio_chart,
                         "B\u2019s time over A\u2019s of each block (<span class=\"key round "
                         "point\"></span>), the mean of each placement (short lines), the estimate (dashed). "
                         "<span class=\"key cross\">\u00d7</span> dropped: point at it to read why. Grounds "
                         "and numbers on top tell placements apart.") +
                      figure(v, letter_chart,
                             fmt::format("Mean of the two letters of each block: {} &#160; {}. What both do "
                                         "together is drift; it cancels in a block.",
                                         kKeyA, kKeyB)));
  body += clocks_section(v);
  body += method_section(v);
  body += sides_section(v);
  body += notes_section(at(report, "notes"));
  body += blocks_section(v);
  const std::string file = escape_html(data_file);
  body += fmt::format(
      "<section><h2>Check it</h2><p>The numbers of this page are in <code>{}</code>. On any machine, without "
      "a GPU:</p><pre>klab report --verify {}</pre>"
      "<p class=\"note\">It computes the verdict again from the blocks, the blocks from the launches, and "
      "looks for what does not fit together. "
      "It cannot tell whether the times were really measured.</p></section></main><footer>Made by klab {} at "
      "{}.</footer>",
      file, file, foreign(at(report, "klab")), foreign(at(report, "made_at")));
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'\"/>"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/><meta name=\"color-scheme\" "
      "content=\"light dark\"/>"
      "<meta name=\"referrer\" "
      "content=\"no-referrer\"/><title>{}</title><style>{}</style></head><body>{}</body></html>\n",
      escape_html(h.words +
                  (kernel.empty() ? "" : " \u2013 " + kernel.substr(0, kernel.size() > 120 ? 0 : 120))),
      kReportStyle, body);
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        if ((static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f)
          out += "\uFFFD";
        else if (c == '\xef' && i + 2 < text.size() && text[i + 1] == '\xbf' &&
                 (text[i + 2] == '\xbe' || text[i + 2] == '\xbf'))
          out += "\uFFFD", i += 2;
        else
          out += c;
    }
  }
  return out;
}

std::string report_html(const Json& report, std::string_view data_file) {
  // What JSON text cannot hold (bytes that are no UTF-8) goes first, so that text can be cut at characters.
  const Json clean = Json::parse(report.dump(-1, ' ', false, Json::error_handler_t::replace), nullptr, false);
  return page(clean, data_file);
}

}  // namespace klab::ops
