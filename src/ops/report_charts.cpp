// SPDX-License-Identifier: Apache-2.0
#include "ops/report_charts.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/units.h"
#include "measure/summary.h"
#include "ops/report.h"
#include "ops/report_fields.h"
#include "ops/report_svg.h"

namespace klab::ops {
namespace {

using namespace fields;
using measure::Block;
using measure::Letter;

constexpr double kNarrow = 500;           // below: fewer ticks, smaller margins
constexpr std::size_t kMostMarks = 4000;  // of one chart; more are thinned

struct Range {
  double low = INFINITY, high = -INFINITY;
  void add(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value), high = std::max(high, value);
  }
  /// The bulk of the values: a few that lie far out do not squeeze the rest.
  void add_bulk(std::vector<double> values, double share) {
    std::erase_if(values, [](double v) { return !std::isfinite(v); });
    if (values.empty()) return;
    std::sort(values.begin(), values.end());
    add(measure::quantile(values, share));
    add(measure::quantile(values, 1 - share));
  }
  Scale scale(double from, double to, double pad = 0.08) const {
    if (!(high >= low)) return {0, 1, from, to};
    const double more = (high - low) * pad;
    return {low - more, high + more, from, to};
  }
};

std::string cut(const std::string& words, std::size_t most) {
  if (words.size() <= most) return words;
  std::size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(words[end]) & 0xc0) == 0x80) --end;
  return words.substr(0, end) + "\u2026";
}

double step_of(const std::vector<double>& ticks) { return ticks.size() > 1 ? ticks[1] - ticks[0] : 0; }

/// The frame that charts share: where marks go, with ticks and grid lines.
struct Frame {
  double left, right, top, bottom;
  bool narrow;
  Frame(const Svg& svg, double top_, double below) : top(top_) {
    narrow = svg.width() < kNarrow;
    left = narrow ? 46 : 62;
    right = svg.width() - (narrow ? 8 : 14);
    bottom = svg.height() - below;
  }
  void x_axis(Svg& svg, const Scale& x, double unit, std::string_view name) const {
    const Scale shown(x.low / unit, x.high / unit, x.from, x.to);
    const auto ticks = shown.ticks(narrow ? 4 : 8);
    svg.line(left, bottom, right, bottom, "axis");
    for (const double t : ticks) {
      svg.line(shown(t), bottom, shown(t), bottom + 4, "axis");
      svg.text(shown(t), bottom + 17, "middle", "tick", tick_text(t, step_of(ticks)));
    }
    svg.text((left + right) / 2, bottom + 34, "middle", "name", name);
  }
  void y_axis(Svg& svg, const Scale& y, double unit, int about) const {
    const Scale shown(y.low / unit, y.high / unit, y.from, y.to);
    const auto ticks = shown.ticks(about);
    for (const double t : ticks) {
      svg.line(left, shown(t), right, shown(t), "grid");
      svg.text(left - 6, shown(t) + 4, "end", "tick", tick_text(t, step_of(ticks)));
    }
  }
};

/// Of times: the number of nanoseconds in the unit that suits them, and its name.
std::pair<double, const char*> time_unit(double ns) {
  if (ns >= 1e9) return {1e9, "s"};
  if (ns >= 1e6) return {1e6, "ms"};
  if (ns >= 1e3) return {1e3, "\u00b5s"};
  return {1, "ns"};
}

Scale time_scale(const ReportView& view, const Frame& f) {
  Range r;
  if (view.comparison)
    for (const Block& b : view.comparison->blocks) r.add(b.at_s);
  for (const Json* s : view.environment) r.add(number_or(at(*s, "at_s"), NAN));
  return r.scale(f.left + 6, f.right - 6, 0);
}

/// Placements one beside the other, each second one on another ground.
void placement_bands(Svg& svg, const ReportView& view, const Scale& x, const Frame& f) {
  const auto& blocks = view.comparison->blocks;
  std::size_t placements = 0;
  for (std::size_t i = 0; i < blocks.size();) {
    std::size_t end = i;
    while (end < blocks.size() && blocks[end].placement == blocks[i].placement) ++end;
    const double from = i == 0 ? f.left : x(blocks[i].at_s) - 2;
    const double to = end < blocks.size() ? x(blocks[end].at_s) - 2 : f.right;
    if (placements % 2 == 1) svg.rect(from, f.top, to - from, f.bottom - f.top, "band");
    if (to - from > 16)
      svg.text((from + to) / 2, f.top - 5, "middle", "tick", std::to_string(blocks[i].placement + 1));
    ++placements;
    i = end;
  }
}

/// Every n-th so that at most kMostMarks are drawn.
std::size_t stride_of(std::size_t n) { return n / kMostMarks + 1; }

double safe_ratio(const Block& b) { return std::exp(b.log_ratio()); }

}  // namespace

ReportView::ReportView(const Json& r)
    : report(r), a(cut(text(at(r, "a", "label")), 60)), b(cut(text(at(r, "b", "label")), 60)) {
  samples_a = numbers(at(r, "samples", "a", "times_ns"));
  samples_b = numbers(at(r, "samples", "b", "times_ns"));
  step_ns = number_or(at(r, "comparison", "timer_step_ns"), 0);
  const Json& blocks = at(r, "comparison", "blocks");
  if (blocks.is_array() && blocks.size() <= kMostReportBlocks)
    if (auto decoded = decode_json<measure::Comparison>(at(r, "comparison"), "comparison"))
      comparison = std::move(*decoded);
  if (const Json& all = at(r, "comparison", "environment", "samples"); all.is_array()) {
    double before = -INFINITY;
    for (const Json& one : all) {
      const auto when = number(at(one, "at_s"));
      if (!when) continue;
      if (*when < before) environment.clear();  // those before were taken while the floor was measured
      before = *when;
      environment.push_back(&one);
    }
  }
}

std::string percent_text(double share) {
  const double percent = 100 * share;
  return fmt::format("{:.{}f}\u00a0%", percent,
                     std::abs(percent) < 0.095  ? 3
                     : std::abs(percent) < 99.5 ? 2
                                                : 0);
}

std::string interval_chart(const ReportView& view, double width) {
  if (!view.comparison) return {};
  const measure::Conclusion& c = view.comparison->conclusion;
  const double delta = view.comparison->design.delta();
  if (!c.interval.bounded() || c.placements > kMostReportBlocks) return {};
  const bool narrow = width < kNarrow;
  const auto placements = measure::counted(view.comparison->blocks, c.placements);
  std::vector<double> means;
  for (const auto& group : placements) {
    double sum = 0;
    for (const double v : group) sum += v;
    means.push_back(std::exp(sum / static_cast<double>(group.size())));
  }
  Svg svg(width, c.cycles ? 208 : 168, "Interval of B's time over A's",
          fmt::format("{:.4f}, interval {:.4f} to {:.4f}; no difference that matters is {:.4f} to {:.4f}",
                      c.interval.ratio, c.interval.low, c.interval.high, 1 - delta, 1 + delta));
  Frame f(svg, 26, 42);
  f.left = narrow ? 10 : 90;
  Range r;
  for (const double v : {c.interval.low, c.interval.high, c.interval.ratio, 1.0, 1 - delta, 1 + delta})
    r.add(v);
  r.add_bulk(means, 0.02);
  const Scale x = r.scale(f.left + 4, f.right - 4);
  svg.rect(x(1 - delta), f.top, x(1 + delta) - x(1 - delta), f.bottom - f.top, "same",
           "no difference that matters");
  svg.line(x(1), f.top, x(1), f.bottom, "one");
  for (const double edge : {1 - delta, 1 + delta}) svg.line(x(edge), f.top, x(edge), f.bottom, "edge");
  if (x(1 - delta) - f.left > 62) svg.text(x(1 - delta) - 6, 16, "end", "tick", "\u2190 B faster");
  if (f.right - x(1 + delta) > 62) svg.text(x(1 + delta) + 6, 16, "start", "tick", "B slower \u2192");
  svg.text(x(1), 16, "middle", "tick",
           x(1 + delta) - x(1 - delta) > 90 ? fmt::format("1 \u00b1 {}", percent_text(delta)) : "1");
  const auto row = [&](double y, const measure::Interval& i, std::string_view name, std::string_view style) {
    if (!narrow)
      svg.text(f.left - 10, y + 4, "end", "name", name);
    else if (c.cycles)
      svg.text(x(i.ratio), y - 11, "middle", "tick", name);
    svg.line(x(i.low), y, x(i.high), y, fmt::format("reach {}", style));
    for (const double end : {i.low, i.high})
      svg.line(x(end), y - 8, x(end), y + 8, fmt::format("reach {}", style));
    svg.circle(x(i.ratio), y, 6, fmt::format("dot {}", style),
               fmt::format("{}: {:.5f} ({:.5f} to {:.5f})", name, i.ratio, i.low, i.high));
  };
  double y = f.top + 26;
  row(y, c.interval, "time", "");
  if (c.cycles) row(y += 40, *c.cycles, "cycles", "second");
  y += 42;
  if (!narrow) svg.text(f.left - 10, y + 4, "end", "name", "placements");
  for (std::size_t i = 0; i < means.size(); i += stride_of(means.size()))
    svg.circle(x(means[i]), y + (static_cast<double>(i % 3) - 1) * 5, 3.5, "point",
               fmt::format("mean of a placement: {:.5f}", means[i]));
  f.x_axis(svg, x, 1, "B's time over A's");
  return svg.str();
}

std::string distribution_chart(const ReportView& view, double width) {
  if (view.samples_a.size() < 2 || view.samples_b.size() < 2) return {};
  Range r;
  r.add_bulk(view.samples_a, 0.005);
  r.add_bulk(view.samples_b, 0.005);
  const auto median = [](const std::vector<double>& v) { return measure::grouped_median(v, 0); };
  const double of_a = median(view.samples_a), of_b = median(view.samples_b);
  r.add(of_a), r.add(of_b);
  Svg svg(width, 268, "Times of single launches",
          fmt::format("histograms: {} launches of A with median {}, {} of B with median {}",
                      view.samples_a.size(), format_ns(of_a), view.samples_b.size(), format_ns(of_b)));
  const Frame f(svg, 18, 42);
  const Scale x = r.scale(f.left, f.right, 0.03);
  // Freedman-Diaconis, a whole number of timer steps wide, within what can be seen.
  std::vector<double> sorted = view.samples_a;
  sorted.insert(sorted.end(), view.samples_b.begin(), view.samples_b.end());
  std::sort(sorted.begin(), sorted.end());
  const double iqr = measure::quantile(sorted, 0.75) - measure::quantile(sorted, 0.25), span = x.high - x.low;
  double wide =
      std::max(2 * iqr / std::cbrt(static_cast<double>(sorted.size())), span / (f.narrow ? 50 : 110));
  wide = std::min(wide, span / 12);
  if (view.step_ns > 0 && view.step_ns < span / 4) wide = std::ceil(wide / view.step_ns) * view.step_ns;
  const auto bins = static_cast<std::size_t>(std::clamp(std::ceil(span / wide), 1.0, 200.0));
  const auto [unit, unit_name] = time_unit(of_a);
  const double height = (f.bottom - f.top - 26) / 2;
  double most = 0;
  std::vector<double> share[2];
  std::size_t outside[2] = {0, 0};
  for (int which = 0; which < 2; ++which) {
    const auto& samples = which == 0 ? view.samples_a : view.samples_b;
    share[which].assign(bins, 0);
    for (const double s : samples) {
      if (!x.holds(s)) {
        ++outside[which];
        continue;
      }
      const auto bin =
          static_cast<std::size_t>(std::clamp((s - x.low) / wide, 0.0, static_cast<double>(bins - 1)));
      share[which][bin] += 1.0 / static_cast<double>(samples.size());
    }
    most = std::max(most, *std::max_element(share[which].begin(), share[which].end()));
  }
  for (int which = 0; which < 2; ++which) {
    const double base = f.top + height * (which + 1) + 26 * which;
    const char* letter = which == 0 ? "A" : "B";
    const double middle = which == 0 ? of_a : of_b;
    for (std::size_t k = 0; k < bins; ++k) {
      if (share[which][k] <= 0) continue;
      const double from = x.low + wide * static_cast<double>(k),
                   tall = share[which][k] / most * (height - 14);
      svg.rect(x(from), base - tall, std::max(1.0, x(from + wide) - x(from) - 0.6), tall,
               which == 0 ? "bar a" : "bar b",
               fmt::format("{}: {} of launches took {} to {}", letter, percent_text(share[which][k]),
                           format_ns(from), format_ns(from + wide)));
    }
    svg.line(f.left, base, f.right, base, "axis");
    svg.line(x(middle), base - height + 4, x(middle), base, which == 0 ? "median a" : "median b");
    const bool to_left = x(middle) > (f.left + f.right) / 2;
    svg.text(x(middle) + (to_left ? -6 : 6), base - height + 12, to_left ? "end" : "start", "name",
             fmt::format("median {}", format_ns(middle)));
    svg.text(f.left - 8, base - 4, "end", which == 0 ? "letter a" : "letter b", letter);
    if (outside[which] != 0)
      svg.text(to_left ? f.left + 4 : f.right, base - height + (f.narrow ? 28 : 12),
               to_left ? "start" : "end", "tick", fmt::format("{} outside", outside[which]));
  }
  f.x_axis(svg, x, unit, fmt::format("time of a launch, {}", unit_name));
  return svg.str();
}

std::string ratio_chart(const ReportView& view, double width) {
  if (!view.comparison || view.comparison->blocks.empty()) return {};
  const auto& blocks = view.comparison->blocks;
  const double delta = view.comparison->design.delta();
  const measure::Interval& interval = view.comparison->conclusion.interval;
  Svg svg(width, 300, "Ratio of each block over time",
          fmt::format("{} blocks in {} placements, {} dropped", blocks.size(),
                      view.comparison->conclusion.placements, view.comparison->conclusion.blocks_dropped));
  const Frame f(svg, 22, 42);
  const Scale x = time_scale(view, f);
  Range r;
  std::vector<double> ratios;
  for (const Block& b : blocks)
    if (b.dropped.empty()) ratios.push_back(safe_ratio(b));
  if (ratios.empty())
    for (const Block& b : blocks) ratios.push_back(safe_ratio(b));
  r.add_bulk(ratios, ratios.size() > 200 ? 0.01 : 0);
  r.add(1);
  if (interval.bounded()) r.add(interval.low), r.add(interval.high);
  const Scale y = r.scale(f.bottom, f.top);
  placement_bands(svg, view, x, f);
  if (delta < 1) svg.rect(f.left, y(1 + delta), f.right - f.left, y(1 - delta) - y(1 + delta), "same");
  f.y_axis(svg, y, 1, 6);
  svg.line(f.left, y(1), f.right, y(1), "one");
  if (interval.bounded()) svg.line(f.left, y(interval.ratio), f.right, y(interval.ratio), "mean");
  const std::size_t stride = stride_of(blocks.size());
  for (std::size_t i = 0; i < blocks.size(); i += stride) {
    const Block& b = blocks[i];
    const double ratio = safe_ratio(b);
    const std::string tip =
        fmt::format("block {}, placement {}, {}: {:.5f}{}{}", i, b.placement + 1,
                    b.starts_with_b ? "BAAB" : "ABBA", ratio, y.holds(ratio) ? "" : " (beyond this axis)",
                    b.dropped.empty() ? "" : ", dropped: " + b.dropped);
    if (b.dropped.empty())
      svg.circle(x(b.at_s), y(ratio), f.narrow ? 2 : 2.6, "point", tip);
    else
      svg.cross(x(b.at_s), y(ratio), 3, "gone", tip);
  }
  const std::uint32_t counted = view.comparison->conclusion.placements;
  for (std::size_t i = 0; i < blocks.size();) {
    if (i != 0 && blocks[i - 1].placement < counted && blocks[i].placement >= counted) {
      svg.line(x(blocks[i].at_s) - 2, f.top, x(blocks[i].at_s) - 2, f.bottom, "edge");
      svg.text(x(blocks[i].at_s) + 4, f.bottom - 6, "start", "tick", "after the decision \u2192");
    }
    std::size_t end = i, n = 0;
    double sum = 0;
    for (; end < blocks.size() && blocks[end].placement == blocks[i].placement; ++end)
      if (blocks[end].dropped.empty() && std::isfinite(blocks[end].log_ratio()))
        sum += blocks[end].log_ratio(), ++n;
    const double from = x(blocks[i].at_s), to = x(blocks[end - 1].at_s),
                 mean = std::exp(sum / static_cast<double>(std::max<std::size_t>(n, 1)));
    if (n != 0) svg.line(from - 1, y(mean), std::max(to, from + 3) + 1, y(mean), "step");
    i = end;
  }
  f.x_axis(svg, x, 1, "seconds since the comparison began");
  return svg.str();
}

std::string letter_chart(const ReportView& view, double width) {
  if (!view.comparison || view.comparison->blocks.empty()) return {};
  const auto& blocks = view.comparison->blocks;
  Svg svg(width, 240, "Time of each letter",
          "median time of the launches of each letter of A and B, over the comparison");
  const Frame f(svg, 22, 42);
  const Scale x = time_scale(view, f);
  std::vector<double> times;
  for (const Block& b : blocks)
    for (const auto* letters : {&b.a, &b.b})
      for (const Letter& l : *letters) times.push_back(l.time_ns);
  Range r;
  r.add_bulk(times, times.size() > 200 ? 0.005 : 0);
  const Scale y = r.scale(f.bottom, f.top);
  const auto [unit, unit_name] = time_unit(measure::grouped_median(times, 0));
  placement_bands(svg, view, x, f);
  f.y_axis(svg, y, unit, 5);
  svg.text(4, 12, "start", "tick", unit_name);
  const std::size_t stride = stride_of(2 * blocks.size());
  for (std::size_t i = 0; i < blocks.size(); i += stride) {
    const Block& b = blocks[i];
    const char* faint = b.dropped.empty() ? "" : " faint";
    for (int which = 0; which < 2; ++which) {
      const auto& letters = which == 0 ? b.a : b.b;
      const double time = (letters[0].time_ns + letters[1].time_ns) / 2;
      const std::string tip = fmt::format("block {}, {}: {} and {}", i, which == 0 ? "A" : "B",
                                          format_ns(letters[0].time_ns), format_ns(letters[1].time_ns));
      if (which == 0)
        svg.circle(x(b.at_s), y(time), 2.6, fmt::format("mark a{}", faint), tip);
      else
        svg.square(x(b.at_s), y(time), 2.3, fmt::format("mark b{}", faint), tip);
    }
  }
  f.x_axis(svg, x, 1, "seconds since the comparison began");
  return svg.str();
}

namespace {

struct Track {
  const char *member, *name, *unit;
  double scale;
};
constexpr Track kTracks[] = {{"sm_mhz", "clock of the processors", "MHz", 1},
                             {"memory_mhz", "clock of the memory", "MHz", 1},
                             {"power_w", "power", "W", 1},
                             {"temperature_c", "temperature", "\u00b0C", 1},
                             {"taken_share", "processors taken by other programs", "%", 100}};

std::string track_chart(const ReportView& view, const Track& track, double width, bool last) {
  std::vector<double> values;
  for (const Json* s : view.environment)
    if (const auto v = number(at(*s, track.member))) values.push_back(*v * track.scale);
  if (values.empty()) return {};
  Range r;
  for (const double v : values) r.add(v);
  Svg svg(width, last ? 148 : 112, track.name,
          fmt::format("{} samples, {:.4g} to {:.4g} {}", values.size(), r.low, r.high, track.unit));
  const Frame f(svg, 24, last ? 42 : 8);
  // A clock that stays as it is should look like that: the axis spans 2 % at least.
  const double least = std::max(std::abs(r.high) * 0.02, 1e-9);
  if (r.high - r.low < least) {
    const double middle = (r.low + r.high) / 2;
    r.low = middle - least / 2, r.high = middle + least / 2;
  }
  const Scale x = time_scale(view, f), y = r.scale(f.bottom, f.top, 0.12);
  svg.text(f.left, 13, "start", "name", fmt::format("{}, {}", track.name, track.unit));
  f.y_axis(svg, y, 1, 3);
  std::string points;
  const std::size_t stride = stride_of(view.environment.size());
  for (std::size_t i = 0; i < view.environment.size(); i += stride) {
    const Json& s = *view.environment[i];
    const auto v = number(at(s, track.member));
    if (!v) continue;
    const double px = x(number_or(at(s, "at_s"), 0)), py = y(*v * track.scale);
    points += fmt::format("{}{} {}", points.empty() ? "M" : "L", coordinate(px), coordinate(py));
    std::string why;
    if (const Json& reasons = at(s, "reasons"); reasons.is_array())
      for (const Json& one : reasons) why += (why.empty() ? "" : ", ") + cut(text(one), 80);
    const std::string tip = fmt::format("{:.2f} s: {:.5g} {}{}", number_or(at(s, "at_s"), 0),
                                        *v * track.scale, track.unit, why.empty() ? "" : "; " + why);
    if (why.empty())
      svg.circle(px, py, 1.8, "point", tip);
    else
      svg.cross(px, py, 3, "gone", tip);
  }
  svg.path(points, "trace");
  svg.line(f.left, f.bottom, f.right, f.bottom, "axis");
  if (last) f.x_axis(svg, x, 1, "seconds since the comparison began");
  return svg.str();
}

/// Clocks that were read on the processors around each letter, A and B told apart.
std::string letter_clock_chart(const ReportView& view, double width) {
  if (!view.comparison) return {};
  std::vector<double> clocks;
  for (const Block& b : view.comparison->blocks)
    for (const auto* letters : {&b.a, &b.b})
      for (const Letter& l : *letters)
        if (l.clock_mhz && *l.clock_mhz > 0) clocks.push_back(*l.clock_mhz);
  if (clocks.empty()) return {};
  Range r;
  r.add_bulk(clocks, clocks.size() > 200 ? 0.005 : 0);
  const double least = std::max(r.high * 0.02, 1e-9);
  if (r.high - r.low < least) r.low -= least / 2, r.high += least / 2;
  Svg svg(width, 190, "Clock of each letter",
          fmt::format("read on the processors: {:.0f} to {:.0f} MHz", r.low, r.high));
  const Frame f(svg, 24, 42);
  const Scale x = time_scale(view, f), y = r.scale(f.bottom, f.top, 0.1);
  svg.text(f.left, 13, "start", "name", "clock of the processors over each letter, MHz");
  f.y_axis(svg, y, 1, 4);
  const auto& blocks = view.comparison->blocks;
  const std::size_t stride = stride_of(4 * blocks.size());
  for (std::size_t i = 0; i < blocks.size(); i += stride)
    for (int which = 0; which < 2; ++which)
      for (const Letter& l : which == 0 ? blocks[i].a : blocks[i].b) {
        if (!l.clock_mhz) continue;
        const std::string tip =
            fmt::format("block {}, {}: {:.1f} MHz", i, which == 0 ? "A" : "B", *l.clock_mhz);
        if (which == 0)
          svg.circle(x(blocks[i].at_s), y(*l.clock_mhz), 2.4, "mark a", tip);
        else
          svg.square(x(blocks[i].at_s), y(*l.clock_mhz), 2.1, "mark b", tip);
      }
  f.x_axis(svg, x, 1, "seconds since the comparison began");
  return svg.str();
}

}  // namespace

std::string clock_charts(const ReportView& view, double width) {
  std::string charts;
  std::vector<const Track*> there;
  for (const Track& track : kTracks)
    if (std::any_of(view.environment.begin(), view.environment.end(),
                    [&](const Json* s) { return number(at(*s, track.member)).has_value(); }))
      there.push_back(&track);
  for (const Track* track : there) charts += track_chart(view, *track, width, track == there.back());
  return charts + letter_clock_chart(view, width);
}

}  // namespace klab::ops
