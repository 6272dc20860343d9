// SPDX-License-Identifier: Apache-2.0
#include "calibrate/calibration.h"

#include <algorithm>
#include <cmath>
#include <ctime>

namespace klab::calibrate {
namespace {

constexpr std::size_t kMostFigures = 1000, kMostTried = 100, kMostText = 1000;

void read_rate(const Json& j, const char* name, double& out) {
  read_required(j, name, out);
  if (!std::isfinite(out) || out <= 0) throw std::runtime_error(std::string(name) + " is not a positive number");
}
void read_text(const Json& j, const char* name, std::string& out) {
  read_optional(j, name, out);
  if (out.size() > kMostText) throw std::runtime_error(std::string(name) + " is too long");
}
void read_number(const Json& j, const char* name, std::optional<double>& out) {
  if (!j.contains(name) || j[name].is_null()) return;
  double value = 0;
  read_rate(j, name, value);
  out = value;
}
const Json& list(const Json& j, const char* name, std::size_t most) {
  static const Json none = Json::array();
  const auto it = j.find(name);
  if (it == j.end()) return none;
  if (!it->is_array() || it->size() > most) throw std::runtime_error(std::string(name) + " is not a short list");
  return *it;
}

}  // namespace

void to_json(Json& j, const Figure& v) {
  j = Json{{"kind", v.kind},   {"name", v.name}, {"unit", v.unit},       {"value", v.value}, {"q1", v.q1},
           {"q3", v.q3},       {"best", v.best}, {"samples", v.samples}, {"config", v.config}};
  if (!v.how.empty()) j["how"] = v.how;
  if (!v.shape.empty()) j["shape"] = v.shape;
  if (v.width != 0) j["width"] = v.width;
  if (v.work != 0) j["work"] = v.work;
  if (v.working_set != 0) j["working_set"] = v.working_set;
  if (v.burst) j["burst"] = *v.burst;
  if (v.sustained_ms) j["sustained_ms"] = *v.sustained_ms;
  if (v.clock_mhz) j["clock_mhz"] = *v.clock_mhz;
  if (v.ceiling_only) j["ceiling_only"] = true;
  for (const Figure::Tried& t : v.tried) j["tried"].push_back({{"config", t.config}, {"value", t.value}});
}
void from_json(const Json& j, Figure& v) {
  v = {};
  read_required(j, "kind", v.kind);
  read_required(j, "name", v.name);
  for (const auto& [name, text] : {std::pair("name", &v.name), {"unit", &v.unit}, {"how", &v.how},
                                   {"shape", &v.shape}, {"config", &v.config}})
    read_text(j, name, *text);
  read_optional(j, "width", v.width);
  for (const auto& [name, rate] : {std::pair("value", &v.value), {"q1", &v.q1}, {"q3", &v.q3}, {"best", &v.best}})
    read_rate(j, name, *rate);
  read_optional(j, "samples", v.samples);
  read_optional(j, "working_set", v.working_set);
  read_optional(j, "work", v.work);
  if (!std::isfinite(v.work) || v.work < 0) throw std::runtime_error("work is not a number");
  for (const auto& [name, number] :
       {std::pair("burst", &v.burst), {"sustained_ms", &v.sustained_ms}, {"clock_mhz", &v.clock_mhz}})
    read_number(j, name, *number);
  read_optional(j, "ceiling_only", v.ceiling_only);
  for (const Json& t : list(j, "tried", kMostTried)) {
    Figure::Tried tried;
    read_text(t, "config", tried.config);
    read_rate(t, "value", tried.value);
    v.tried.push_back(std::move(tried));
  }
}

void to_json(Json& j, const Calibration& v) {
  j = Json{{"device", v.device},   {"klab", v.klab},           {"made_at", v.made_at},
           {"made", time_text(v.made_at)}, {"took_s", v.took_s}, {"figures", v.figures},
           {"missing", Json::array()},     {"notes", v.notes}};
  if (v.last_level_cache != 0) j["last_level_cache"] = v.last_level_cache;
  for (const Missing& m : v.missing) j["missing"].push_back({{"name", m.name}, {"why", m.why}});
}
void from_json(const Json& j, Calibration& v) {
  v = {};
  read_required(j, "device", v.device);
  read_text(j, "klab", v.klab);
  read_required(j, "made_at", v.made_at);
  read_optional(j, "took_s", v.took_s);
  read_optional(j, "last_level_cache", v.last_level_cache);
  for (const Json& f : list(j, "figures", kMostFigures)) v.figures.push_back(f.get<Figure>());
  for (const Json& m : list(j, "missing", kMostFigures)) {
    Missing missing;
    read_text(m, "name", missing.name);
    read_text(m, "why", missing.why);
    v.missing.push_back(std::move(missing));
  }
  for (const Json& n : list(j, "notes", kMostFigures)) v.notes.push_back(n.get<std::string>());
}

const Figure* Calibration::best(Kind kind, std::string_view name) const {
  const Figure* found = nullptr;
  for (const Figure& f : figures)
    if (f.kind == kind && f.name == name &&
        (found == nullptr || std::pair(!f.ceiling_only, f.value) > std::pair(!found->ceiling_only, found->value)))
      found = &f;
  return found;
}

double Calibration::ceiling(Kind kind, std::string_view name) const {
  double most = 0;
  for (const Figure& f : figures)
    if (f.kind == kind && f.name == name) most = std::max({most, f.value, f.best, f.burst.value_or(0)});
  return most;
}

Result<Calibration> from_answer(const bundle::DeviceIdentity& device, const Json& calibration, double took_s) {
  if (!calibration.is_object()) return fail(ErrorCode::invalid_data, "the worker's answer holds no calibration");
  Json whole = calibration;
  whole["device"] = device;
  whole["klab"] = KLAB_VERSION;
  whole["made_at"] = static_cast<std::int64_t>(std::time(nullptr));
  whole["took_s"] = took_s;
  return decode_json<Calibration>(whole, "the worker's calibration");
}

std::string time_text(std::int64_t seconds) {
  const auto when = static_cast<std::time_t>(seconds);
  std::tm parts{};
  char text[32] = {};
  if (::gmtime_r(&when, &parts) == nullptr || std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts) == 0)
    return "?";
  return text;
}

}  // namespace klab::calibrate
