// SPDX-License-Identifier: Apache-2.0
#include "ops/roofline.h"

#include <cmath>

#include <fmt/format.h>

#include "measure/summary.h"
#include "ops/calibrate.h"

namespace klab::ops {
namespace {

constexpr const char* kPrecisions[] = {"fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int32", "int8"};

Result<double> positive(const std::string& text, const std::string& option) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(value > 0) || !std::isfinite(value))
    return fail(ErrorCode::usage, fmt::format("{} {}: that is no number above 0", option, text), option + " 2.1e9");
  return value;
}

/// Of the counters that were read in this run.
calibrate::Work counted(const Json& counters) {
  calibrate::Work work;
  if (!counters.is_object() || !counters.contains("derived")) return work;
  const Json& derived = counters["derived"];
  const auto value = [&](const char* name) -> std::optional<double> {
    if (!derived.contains(name) || !derived[name]["value"].is_number()) return std::nullopt;
    return derived[name]["value"].get<double>();
  };
  work.bytes_read = value("dram_read_bytes");
  work.bytes_written = value("dram_written_bytes");
  for (const char* precision : {"fp64", "fp32", "fp16"})
    if (const auto n = value(fmt::format("flop_{}", precision).c_str()); n && *n > 0) work.flops[precision] = *n;
  work.source = "counters";
  return work;
}

}  // namespace

Fields& take_work(Fields& fields, WorkText& work) { return fields.take("flops", work.flops).take("bytes", work.bytes); }

Json work_arguments(const WorkText& work) {
  Json j = Json::object();
  if (!work.flops.empty()) j["flops"] = work.flops;
  if (!work.bytes.empty()) j["bytes"] = work.bytes;
  return j;
}

Result<calibrate::Work> parse_work(const WorkText& text) {
  calibrate::Work work;
  work.source = "given";
  for (std::string one : text.flops) {
    std::string precision = "fp32";
    if (const auto at = one.find('='); at != std::string::npos) precision = one.substr(0, at), one = one.substr(at + 1);
    if (precision.rfind("matrix:", 0) == 0) work.matrix = true, precision = precision.substr(7);
    if (std::find(std::begin(kPrecisions), std::end(kPrecisions), precision) == std::end(kPrecisions))
      return fail(ErrorCode::usage, fmt::format("--flops: there is no precision \"{}\"", precision),
                  fmt::format("{}; with matrix: before it for matrix units", fmt::join(kPrecisions, ", ")));
    KLAB_TRY(work.flops[precision], positive(one, "--flops"));
  }
  for (const std::string& one : text.bytes) {
    if (one.rfind("read=", 0) == 0) {
      KLAB_TRY(work.bytes_read, positive(one.substr(5), "--bytes"));
    } else if (one.rfind("written=", 0) == 0) {
      KLAB_TRY(work.bytes_written, positive(one.substr(8), "--bytes"));
    } else {
      KLAB_TRY(work.bytes_read, positive(one, "--bytes"));
    }
  }
  return work;
}

Json place_run(replay::Answer& answer, std::size_t index, const calibrate::Work& given) {
  replay::VariantAnswer& v = answer.variants[index];
  const calibrate::Work work = given.empty() ? counted(v.counters) : given;
  if (work.empty()) return {{"why", "the work of a launch is not known: --counters reads it, or --flops and --bytes say it"}};
  if (v.samples_ns.empty()) return {{"why", "it was not timed"}};
  const auto calibration = kept_calibration(answer.device);
  if (!calibration) return {{"why", "this device has no valid calibration: klab calibrate makes one"}};
  const auto summary = measure::summarise(v.samples_ns);
  const auto [low, high] = measure::median_interval(v.samples_ns);
  const auto place = calibrate::place(*calibration, work, summary.median_ns, low, high, answer.captured_bytes);
  Json j = place;
  j["work"] = {{"source", work.source}, {"flops", work.flops}, {"matrix", work.matrix}};
  if (work.bytes_read) j["work"]["bytes_read"] = *work.bytes_read;
  if (work.bytes_written) j["work"]["bytes_written"] = *work.bytes_written;
  j["median_interval_ns"] = {low, high};
  if (place.impossible && v.validation.correctness == validate::Correctness::correct) {
    v.validation.correctness = validate::Correctness::not_verified;
    v.validation.reason = place.sentence + "; its results were " + v.validation.reason;
  }
  return j;
}

}  // namespace klab::ops
