// SPDX-License-Identifier: Apache-2.0
#include "base/units.h"

#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

namespace klab {
namespace {
// Three significant digits, never in exponent form.
std::string three_digits(double value) {
  if (value == 0) return "0";
  const int whole = static_cast<int>(std::floor(std::log10(std::fabs(value)))) + 1;
  return fmt::format("{:.{}f}", value, whole >= 3 ? 0 : 3 - std::max(whole, 1));
}
}  // namespace

std::string format_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  static constexpr std::array kUnits{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) value /= 1024, ++unit;
  return fmt::format("{} {}", three_digits(value), kUnits[unit]);
}

std::string format_ns(double ns) {
  if (!std::isfinite(ns)) return "-";
  if (std::fabs(ns) < 1e3) return three_digits(ns) + " ns";
  if (std::fabs(ns) < 1e6) return three_digits(ns / 1e3) + " us";
  if (std::fabs(ns) < 1e9) return three_digits(ns / 1e6) + " ms";
  return three_digits(ns / 1e9) + " s";
}

bool parse_bytes(const std::string& text, std::uint64_t& bytes) {
  char* end = nullptr;
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0])) == 0) return false;
  const double value = std::strtod(text.c_str(), &end);
  double scale = 1;
  std::string unit(end);
  while (!unit.empty() && unit.front() == ' ') unit.erase(0, 1);
  if (!unit.empty() && unit != "B") {
    static constexpr std::string_view kLetters = "KMGTPE";
    const auto at = kLetters.find(static_cast<char>(std::toupper(static_cast<unsigned char>(unit[0]))));
    const std::string rest = unit.substr(1);
    if (at == std::string_view::npos || !(rest.empty() || rest == "B" || rest == "iB")) return false;
    scale = std::pow(1024.0, static_cast<double>(at + 1));
  }
  if (!(value * scale < 9.2e18)) return false;
  bytes = static_cast<std::uint64_t>(std::llround(value * scale));
  return true;
}

}  // namespace klab
