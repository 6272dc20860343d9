// SPDX-License-Identifier: Apache-2.0
// What a device was measured to attain: the figures of one calibration, and the roofs that follow from them.
// Not here: measuring (worker/calibrate*), keeping (cache.h), placing a kernel under the roofs (roofline.h).
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "bundle/manifest.h"

namespace klab::calibrate {

/// "launch": empty_launch, launch_and_wait (ns), launch_throughput (1/s). "memory": read, write, copy, triad;
/// "cache": cache_read (GB/s). "vector", "matrix": a precision, as fp32, bf16, int8 (GFLOP/s; int: GOP/s).
enum class Kind { launch, memory, cache, vector, matrix };
KLAB_JSON_ENUM(Kind, launch, memory, cache, vector, matrix)

struct Figure {
  Kind kind = Kind::memory;
  std::string name, unit;
  std::string how;          // "wgmma"; empty: the plain way
  std::string shape;        // of a matrix instruction: "m64n256k16"
  std::uint32_t width = 0;  // bytes of one access; 0: not said
  double value = 0, q1 = 0, q3 = 0, best = 0;  // median, quartiles and best of the samples
  std::optional<double> burst;                 // before the power limit set in; value is the settled part
  std::optional<double> sustained_ms;          // how long it ran
  std::uint64_t samples = 0, working_set = 0;  // bytes
  double work = 0;                             // bytes or operations of one launch
  std::string config;
  struct Tried {
    std::string config;
    double value = 0;
  };
  std::vector<Tried> tried;
  std::optional<double> clock_mhz;  // of the multiprocessors over the samples
  bool ceiling_only = false;        // more than a real kernel can sustain: a limit, and no roof where there is another
};

struct Missing {
  std::string name, why;
};

struct Calibration {
  bundle::DeviceIdentity device;
  std::string klab;             // version
  std::int64_t made_at = 0;     // seconds since 1970, UTC
  double took_s = 0;            // measuring
  std::uint64_t last_level_cache = 0;  // bytes; 0: not known
  std::vector<Figure> figures;
  std::vector<Missing> missing;
  std::vector<std::string> notes;

  /// The roof: the best figure of that name, one that is a ceiling only where there is no other; null: none.
  const Figure* best(Kind kind, std::string_view name) const;
  /// The most that any sample of any figure of that name attained; 0: none. Beyond it lies nothing.
  double ceiling(Kind kind, std::string_view name) const;
};

/// Foreign bytes: numbers that are not finite and positive, and lists without end, throw.
void to_json(Json& j, const Calibration& v);
void from_json(const Json& j, Calibration& v);
void to_json(Json& j, const Figure& v);
void from_json(const Json& j, Figure& v);

/// From a worker's answer. Errors: invalid_data.
Result<Calibration> from_answer(const bundle::DeviceIdentity& device, const Json& calibration, double took_s);

/// "2026-12-02 19:31 UTC".
std::string time_text(std::int64_t seconds);

}  // namespace klab::calibrate
