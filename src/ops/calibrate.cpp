// SPDX-License-Identifier: Apache-2.0
#include "ops/calibrate.h"

#include <algorithm>
#include <cctype>
#include <ctime>

#include <fmt/format.h>

namespace klab::ops {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

}  // namespace

Result<calibrate::Looked> calibrate_device(Lab& lab, const CalibrateRequest& request) {
  const std::string selector = request.api.empty()      ? request.device
                               : request.device.empty() ? request.api
                                                        : request.api + ":" + request.device;
  const auto ask = [&](const char* verb) -> Result<replay::Answer> {
    KLAB_TRY(replay::Answer answer,
             lab.ask({.verb = verb, .device = selector, .budget_s = request.budget_s}));
    if (answer.outcome != replay::Outcome::ok) return fail(answer.error.value_or(
          Error{ErrorCode::worker_lost, fmt::format("the calibration ended with {}", to_string(answer.outcome)), "", 0}));
    return answer;
  };
  KLAB_TRY(const replay::Answer identified, ask("identify"));
  return calibrate::find_or_measure(
      calibrate::Cache(), identified.device, request.force,
      [&]() -> Result<calibrate::Calibration> {
        KLAB_TRY(const replay::Answer answer, ask("calibrate"));
        KLAB_TRY(auto calibration,
                 calibrate::from_answer(answer.device, answer.calibration, answer.wall_ms / 1000));
        calibration.notes.insert(calibration.notes.end(), answer.notes.begin(), answer.notes.end());
        return calibration;
      },
      [&] { lab.say("another calibration of this device runs: waiting for its figures"); }, lab.cancelled);
}

Result<Json> show_calibrations(const std::string& api, const std::string& device) {
  const calibrate::Cache cache;
  const auto now = static_cast<std::int64_t>(std::time(nullptr));
  Json list = Json::array();
  for (const calibrate::Calibration& c : cache.all()) {
    if (!api.empty() && c.device.api != api) continue;
    if (!device.empty() && c.device.uuid != device &&
        lower(c.device.name).find(lower(device)) == std::string::npos)
      continue;
    Json one = c;
    one["expired"] = cache.expired(c, now);
    list.push_back(std::move(one));
  }
  return Json{{"calibrations", std::move(list)}};
}

std::optional<calibrate::Calibration> kept_calibration(const bundle::DeviceIdentity& device) {
  return calibrate::Cache().find(device, static_cast<std::int64_t>(std::time(nullptr)));
}

}  // namespace klab::ops
