// SPDX-License-Identifier: Apache-2.0
#include "calibrate/roofline.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/units.h"

namespace klab::calibrate {
namespace {

double rate_of(const Calibration& c, const Figure& f, bool ceiling) {
  return ceiling ? c.ceiling(f.kind, f.name) : f.value;
}

/// Matrix units take single precision as tf32.
const Figure* compute_figure(const Calibration& c, const std::string& precision, bool matrix) {
  const Figure* f = c.best(matrix ? Kind::matrix : Kind::vector, precision);
  return f == nullptr && matrix && precision == "fp32" ? c.best(Kind::matrix, "tf32") : f;
}

std::string figure_title(const Figure& f) {
  return fmt::format("{} {}{}", to_string(f.kind), f.name, f.how.empty() ? "" : " (" + f.how + ")");
}

struct Least {
  double ns = 0, ceiling_ns = 0;  // least time at the roof, and at the best that was ever seen
};

/// Time of the bytes; none without a roof.
std::optional<Least> memory_time(const Calibration& c, const Work& work, std::uint64_t captured, Placement& out) {
  const double bytes = work.bytes_read.value_or(0) + work.bytes_written.value_or(0);
  if (bytes <= 0) return std::nullopt;
  const bool split = work.bytes_read && work.bytes_written;
  const double written = split                 ? *work.bytes_written / bytes
                         : work.bytes_written ? 1.0
                                              : 0.0;
  auto roof = memory_roof(c, written), ceiling = memory_roof(c, written, true);
  if (!split && work.bytes_read) {
    // Whichever mix is fastest: nothing may be called impossible for a split that nobody knows.
    for (const double share : {1.0 / 3, 0.5, 1.0}) {
      if (const auto other = memory_roof(c, share, true)) ceiling = std::max(ceiling.value_or(0), *other);
    }
    out.notes.push_back("how many of the bytes are written is not known: the roof is that of reading");
  }
  if (!roof || !ceiling) {
    out.notes.push_back("no bandwidth was measured: the bytes are compared with nothing");
    return std::nullopt;
  }
  out.memory_roof = written == 0 ? "memory, read"
                                 : fmt::format("memory, {:.0f} % of the bytes written", written * 100);
  const Figure* cache = c.best(Kind::cache, "cache_read");
  Least least{bytes / *roof, bytes / *ceiling};
  if (cache != nullptr && c.last_level_cache != 0 && captured != 0) {
    const double fits = std::min(1.0, static_cast<double>(c.last_level_cache) / static_cast<double>(captured));
    const double fast = std::max(rate_of(c, *cache, true), *ceiling);
    least.ceiling_ns = bytes * (fits / fast + (1 - fits) / *ceiling);
    if (fits == 1.0 && cache->value > *roof) {
      roof = cache->value;
      least.ns = bytes / *roof;
      out.memory_roof = fmt::format("last-level cache: {} fit it", format_bytes(captured));
    }
  } else if (work.source != "counters") {
    // Any of it could come from a cache of unknown size or speed.
    least.ceiling_ns = 0;
    out.notes.push_back("the last-level cache or the launch's memory is of unknown size: whether the bytes are possible "
                        "is not judged");
  }
  out.memory_roof_gbs = *roof;
  return least;
}

std::optional<Least> compute_time(const Calibration& c, const Work& work, double high_ns, Placement& out) {
  Least least;
  double counted = 0;
  for (const auto& [precision, flops] : work.flops) {
    if (flops <= 0) continue;
    const Figure* f = compute_figure(c, precision, work.matrix);
    if (!work.matrix && work.source != "counters") {
      // Nobody counted the instructions: what vectors cannot do, matrix units may have done.
      const Figure* other = compute_figure(c, precision, true);
      if (other != nullptr && (f == nullptr || flops / rate_of(c, *f, true) > high_ns)) {
        out.notes.push_back(fmt::format("more {} than vector instructions attain: compared with the matrix units",
                                        precision));
        f = other;
      }
    }
    if (f == nullptr) {
      out.notes.push_back(fmt::format("no {} rate of {} was measured: those operations are compared with nothing",
                                      work.matrix ? "matrix" : "vector", precision));
      continue;
    }
    counted += flops;
    least.ns += flops / rate_of(c, *f, false);
    least.ceiling_ns += flops / rate_of(c, *f, true);
    out.compute_roof += (out.compute_roof.empty() ? "" : ", ") + figure_title(*f);
  }
  if (counted <= 0) return std::nullopt;
  out.compute_roof_gflops = counted / least.ns;
  return least;
}

}  // namespace

std::optional<double> memory_roof(const Calibration& c, double written, bool ceiling) {
  struct Point {
    double written, rate;
  };
  std::vector<Point> points;
  for (const auto& [name, share] :
       {std::pair("read", 0.0), {"triad", 1.0 / 3}, {"copy", 0.5}, {"write", 1.0}})
    if (const Figure* f = c.best(Kind::memory, name)) points.push_back({share, rate_of(c, *f, ceiling)});
  if (points.empty()) return std::nullopt;
  if (written <= points.front().written) return points.front().rate;
  for (std::size_t i = 1; i < points.size(); ++i) {
    const Point &a = points[i - 1], &b = points[i];
    if (written > b.written) continue;
    const double t = (written - a.written) / (b.written - a.written);
    return 1 / ((1 - t) / a.rate + t / b.rate);
  }
  return points.back().rate;
}

Placement place(const Calibration& c, const Work& work, double median_ns, double low_ns, double high_ns,
                std::uint64_t captured_bytes) {
  Placement out;
  if (!(median_ns > 0) || !(low_ns > 0) || !(high_ns > 0) || work.empty()) return out;
  const double slowest = std::max(high_ns, median_ns);
  const double bytes = work.bytes_read.value_or(0) + work.bytes_written.value_or(0);
  double flops = 0;
  for (const auto& [precision, count] : work.flops) flops += std::max(0.0, count);
  if (bytes > 0) out.achieved_gbs = bytes / median_ns;
  if (flops > 0) out.achieved_gflops = flops / median_ns;
  if (bytes > 0 && flops > 0) out.intensity = flops / bytes;

  const auto memory = memory_time(c, work, captured_bytes, out);
  const auto compute = compute_time(c, work, slowest, out);
  if (!memory && !compute) return out;
  const double memory_ns = memory ? memory->ns : 0, compute_ns = compute ? compute->ns : 0;
  out.bound = compute_ns > memory_ns ? "compute" : "memory";
  out.share = std::max(memory_ns, compute_ns) / median_ns;
  const bool by_memory = memory && memory->ceiling_ns > slowest;
  const bool by_compute = compute && compute->ceiling_ns > slowest;
  out.impossible = by_memory || by_compute;
  if (by_memory && (!by_compute || memory->ceiling_ns >= compute->ceiling_ns))
    out.sentence = fmt::format("{} in {} are {:.0f} GB/s, and this device attained {:.0f} GB/s at best: it did not move "
                               "them, or they are not as many as {}",
                               format_bytes(static_cast<std::uint64_t>(bytes)), format_ns(slowest), bytes / slowest,
                               bytes / memory->ceiling_ns,
                               work.source == "counters" ? "counted" : "was said");
  else if (by_compute)
    out.sentence = fmt::format("{:.3g} operations in {} are {:.0f} GFLOP/s, and this device attained {:.0f} GFLOP/s at "
                               "best ({}): it did not do them, or they are not as many as {}",
                               flops, format_ns(slowest), flops / slowest, flops / compute->ceiling_ns,
                               out.compute_roof, work.source == "counters" ? "counted" : "was said");
  return out;
}

void to_json(Json& j, const Placement& v) {
  j = Json{{"impossible", v.impossible}};
  const auto put = [&](const char* name, const std::optional<double>& value) {
    if (value) j[name] = *value;
  };
  put("achieved_gbs", v.achieved_gbs);
  put("achieved_gflops", v.achieved_gflops);
  put("intensity", v.intensity);
  put("memory_roof_gbs", v.memory_roof_gbs);
  put("compute_roof_gflops", v.compute_roof_gflops);
  put("share", v.share);
  if (!v.memory_roof.empty()) j["memory_roof"] = v.memory_roof;
  if (!v.compute_roof.empty()) j["compute_roof"] = v.compute_roof;
  if (!v.bound.empty()) j["bound"] = v.bound;
  if (!v.sentence.empty()) j["sentence"] = v.sentence;
  if (!v.notes.empty()) j["notes"] = v.notes;
}

}  // namespace klab::calibrate
