// SPDX-License-Identifier: Apache-2.0
// Marks of a chart as SVG text, and the scale of an axis. Colours are classes: the page's style has them.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace klab::ops {

/// A linear axis. Any numbers may be given: what is not finite or empty becomes an axis of one.
struct Scale {
  Scale(double low, double high, double from, double to);
  double operator()(double value) const;  // clamped to the axis
  bool holds(double value) const { return value >= low && value <= high; }
  std::vector<double> ticks(int about) const;  // at most 12
  double low, high, from, to;
};
/// As many decimals as tell `step` apart.
std::string tick_text(double value, double step);

class Svg {
 public:
  /// `title` and `description` are what someone hears who does not see it.
  Svg(double width, double height, std::string_view title, std::string_view description);
  void line(double x1, double y1, double x2, double y2, std::string_view style);
  void rect(double x, double y, double width, double height, std::string_view style,
            std::string_view tip = {});
  void circle(double x, double y, double r, std::string_view style, std::string_view tip = {});
  void square(double x, double y, double r, std::string_view style, std::string_view tip = {});
  void cross(double x, double y, double r, std::string_view style, std::string_view tip = {});
  void path(const std::string& points, std::string_view style);
  /// `anchor`: start, middle or end.
  void text(double x, double y, std::string_view anchor, std::string_view style, std::string_view words);
  double width() const { return width_; }
  double height() const { return height_; }
  std::string str() const;

 private:
  void shape(const std::string& open, std::string_view name, std::string_view tip);
  double width_, height_;
  std::string head_, body_;
};

/// "12.3" without an exponent or a long tail: coordinates.
std::string coordinate(double value);

}  // namespace klab::ops
