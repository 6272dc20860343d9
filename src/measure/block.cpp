// SPDX-License-Identifier: Apache-2.0
#include "measure/block.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "measure/random.h"

namespace klab::measure {

double Block::log_ratio() const {
  return 0.5 * (std::log(b[0].time_ns) + std::log(b[1].time_ns) - std::log(a[0].time_ns) - std::log(a[1].time_ns));
}

std::optional<double> Block::log_ratio_cycles() const {
  double clocks = 0;
  for (const auto& [letter, sign] : {std::pair{&b[0], 1.0}, {&b[1], 1.0}, {&a[0], -1.0}, {&a[1], -1.0}}) {
    if (!letter->clock_mhz || !(*letter->clock_mhz > 0)) return std::nullopt;
    clocks += sign * std::log(*letter->clock_mhz);
  }
  return log_ratio() + 0.5 * clocks;
}

double timer_step(std::span<const double> times_ns) {
  std::vector<double> sorted(times_ns.begin(), times_ns.end());
  std::sort(sorted.begin(), sorted.end());
  double step = 0;
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    const double gap = sorted[i] - sorted[i - 1];
    // Closer than a float of milliseconds can tell is the same time.
    if (gap > sorted[i] * 1e-6 && (step == 0 || gap < step)) step = gap;
  }
  return step;
}

double grouped_median(std::span<const double> times_ns, double step) {
  if (times_ns.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::vector<double> sorted(times_ns.begin(), times_ns.end());
  std::sort(sorted.begin(), sorted.end());
  const std::size_t n = sorted.size();
  const double middle = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
  if (!(step > 0)) return middle;
  // The class of the middle: half a step around it. Times that no class holds together are left alone.
  const double at = sorted[(n - 1) / 2];
  const auto first = std::lower_bound(sorted.begin(), sorted.end(), at - step / 2);
  const auto last = std::upper_bound(sorted.begin(), sorted.end(), at + step / 2);
  const auto in_class = static_cast<double>(last - first), below = static_cast<double>(first - sorted.begin());
  if (in_class < 2) return middle;
  return at - step / 2 + step * (static_cast<double>(n) / 2 - below) / in_class;
}

std::vector<bool> balanced_order(std::uint32_t blocks, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const bool odd = pick(random, 2) != 0;
  std::vector<bool> order;
  for (std::uint32_t i = 0; i < blocks; ++i) order.push_back((i % 2 != 0) != odd);
  for (std::size_t i = order.size(); i > 1; --i) {
    const std::size_t other = pick(random, i);
    const bool kept = order[i - 1];
    order[i - 1] = order[other];
    order[other] = kept;
  }
  return order;
}

void to_json(Json& j, const Letter& v) {
  j = Json{{"time_ns", v.time_ns}, {"launches", v.launches}};
  if (v.clock_mhz) j["clock_mhz"] = *v.clock_mhz;
}

void from_json(const Json& j, Letter& v) {
  read_optional(j, "time_ns", v.time_ns);
  read_optional(j, "launches", v.launches);
  if (j.contains("clock_mhz")) v.clock_mhz = j.at("clock_mhz").get<double>();
}

void to_json(Json& j, const Block& v) {
  j = Json{{"placement", v.placement}, {"order", v.starts_with_b ? "BAAB" : "ABBA"}, {"at_s", v.at_s},
           {"a", v.a},                 {"b", v.b}};
  if (!v.dropped.empty()) j["dropped"] = v.dropped;
}

void from_json(const Json& j, Block& v) {
  read_optional(j, "placement", v.placement);
  v.starts_with_b = j.value("order", "ABBA") == "BAAB";
  read_optional(j, "at_s", v.at_s);
  v.a = j.at("a").get<std::array<Letter, 2>>();
  v.b = j.at("b").get<std::array<Letter, 2>>();
  read_optional(j, "dropped", v.dropped);
}

}  // namespace klab::measure
