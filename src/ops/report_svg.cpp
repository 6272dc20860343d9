// SPDX-License-Identifier: Apache-2.0
#include "ops/report_svg.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "ops/report_html.h"

namespace klab::ops {
namespace {
constexpr double kMost = 1e15;  // of an axis: differences of such numbers are still numbers

double bounded(double value) { return std::isfinite(value) ? std::clamp(value, -kMost, kMost) : 0; }
}  // namespace

Scale::Scale(double low_, double high_, double from_, double to_)
    : low(bounded(low_)), high(bounded(high_)), from(from_), to(to_) {
  if (!(high - low > std::max(std::abs(low), std::abs(high)) * 1e-12)) {
    const double half = low == 0 ? 0.5 : std::abs(low) * 0.5;
    low -= half, high += half;
  }
}

double Scale::operator()(double value) const {
  const double share = std::isfinite(value) ? std::clamp((value - low) / (high - low), 0.0, 1.0) : 0;
  return from + share * (to - from);
}

std::vector<double> Scale::ticks(int about) const {
  const double rough = (high - low) / std::max(1, about);
  const double decade = std::pow(10, std::floor(std::log10(rough)));
  const double share = rough / decade;
  const double step = decade * (share > 5 ? 10 : share > 2 ? 5 : share > 1 ? 2 : 1);
  std::vector<double> at;
  const double first = std::ceil(low / step - 1e-9);
  for (int i = 0; i < 12; ++i) {
    const double tick = (first + i) * step;
    if (!(tick <= high + step * 1e-9)) break;
    at.push_back(tick == 0 ? 0.0 : tick);
  }
  return at;
}

std::string tick_text(double value, double step) {
  if (!(step > 0)) return fmt::format("{:g}", value);
  const int decimals = std::clamp(static_cast<int>(std::ceil(-std::log10(step) - 1e-9)), 0, 9);
  return fmt::format("{:.{}f}", value, decimals);
}

std::string coordinate(double value) {
  std::string text = fmt::format("{:.1f}", std::isfinite(value) ? std::clamp(value, -1e6, 1e6) : 0);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

Svg::Svg(double width, double height, std::string_view title, std::string_view description)
    : width_(width), height_(height) {
  head_ = fmt::format("<title>{}</title><desc>{}</desc>", escape_html(title), escape_html(description));
  // Of an image only the label is sure to be read out.
  head_ =
      fmt::format("<svg role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {} {}\" width=\"{}\" height=\"{}\">{}",
                  escape_html(fmt::format("{}: {}", title, description)), coordinate(width),
                  coordinate(height), coordinate(width), coordinate(height), head_);
}

void Svg::shape(const std::string& open, std::string_view name, std::string_view tip) {
  body_ += open;
  body_ += tip.empty() ? "/>" : fmt::format("><title>{}</title></{}>", escape_html(tip), name);
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view style) {
  shape(fmt::format("<line class=\"{}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"", style, coordinate(x1),
                    coordinate(y1), coordinate(x2), coordinate(y2)),
        "line", {});
}

void Svg::rect(double x, double y, double width, double height, std::string_view style,
               std::string_view tip) {
  shape(fmt::format("<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"", style, coordinate(x),
                    coordinate(y), coordinate(std::max(0.0, width)), coordinate(std::max(0.0, height))),
        "rect", tip);
}

void Svg::circle(double x, double y, double r, std::string_view style, std::string_view tip) {
  shape(fmt::format("<circle class=\"{}\" cx=\"{}\" cy=\"{}\" r=\"{}\"", style, coordinate(x), coordinate(y),
                    coordinate(r)),
        "circle", tip);
}

void Svg::square(double x, double y, double r, std::string_view style, std::string_view tip) {
  rect(x - r, y - r, 2 * r, 2 * r, style, tip);
}

void Svg::cross(double x, double y, double r, std::string_view style, std::string_view tip) {
  shape(fmt::format("<path class=\"{}\" d=\"M{} {}L{} {}M{} {}L{} {}\"", style, coordinate(x - r),
                    coordinate(y - r), coordinate(x + r), coordinate(y + r), coordinate(x - r),
                    coordinate(y + r), coordinate(x + r), coordinate(y - r)),
        "path", tip);
}

void Svg::path(const std::string& points, std::string_view style) {
  shape(fmt::format("<path class=\"{}\" d=\"{}\"", style, points), "path", {});
}

void Svg::text(double x, double y, std::string_view anchor, std::string_view style, std::string_view words) {
  body_ += fmt::format("<text class=\"{}\" x=\"{}\" y=\"{}\" text-anchor=\"{}\">{}</text>", style,
                       coordinate(x), coordinate(y), anchor, escape_html(words));
}

std::string Svg::str() const { return head_ + body_ + "</svg>"; }

}  // namespace klab::ops
