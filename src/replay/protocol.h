// SPDX-License-Identifier: Apache-2.0
// What is said to klab-worker and what it answers: length-prefixed JSON (u32 little endian, then text) on one
// socket. Bulk data is never sent: the worker maps the bundle.
#pragma once
#include <csignal>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "bundle/manifest.h"
#include "validate/values.h"
#include "validate/verdict.h"

namespace klab::replay {

inline constexpr int kProtocolVersion = 1;
inline constexpr int kStopSignal = SIGUSR1;  // to a worker: a comparison ends with what it has, other verbs go on
inline constexpr int kWorkerFd = 3;  // the socket's number in the worker
inline constexpr std::size_t kMaxMessage = 256u << 20;

enum class Outcome {
  ok,
  compile_failed,
  missing_symbol,
  launch_failed,
  device_fault,
  timeout,
  out_of_memory,
  worker_lost,
  refused,
  failed
};
KLAB_JSON_ENUM(Outcome, ok, compile_failed, missing_symbol, launch_failed, device_fault, timeout,
               out_of_memory, worker_lost, refused, failed)

enum class Mode { isolated, sustained, repeats };
KLAB_JSON_ENUM(Mode, isolated, sustained, repeats)
enum class CacheState { cold, warm, rotating };
KLAB_JSON_ENUM(CacheState, cold, warm, rotating)

/// Conditions of a run. Two runs are comparable only when these are equal.
struct Conditions {
  Mode mode = Mode::isolated;
  std::uint32_t iterations = 20;  // 1..10,000
  std::uint32_t repeats = 5;      // mode repeats: replays with fresh allocations
  CacheState cache = CacheState::cold;
  std::string memory;          // "": as captured; "device"; "host"
  std::uint64_t flush_mb = 0;  // written, then read, before each launch; 0 with cold: twice the last-level cache
  bool operator==(const Conditions&) const = default;
};
void to_json(Json& j, const Conditions& v);
void from_json(const Json& j, Conditions& v);

/// What a variant changes of the captured launch; empty members keep it.
struct LaunchOverride {
  std::optional<bundle::Dim3> grid;
  std::map<std::uint32_t, Bytes> spec_constants;  // id -> bytes
  std::map<std::uint32_t, Bytes> push_constants;  // byte offset -> bytes
  std::optional<bundle::Dim3> block, cluster;     // CUDA, HIP
  std::optional<std::uint32_t> subgroup_size;     // Vulkan
  std::optional<std::uint32_t> dynamic_shared_bytes;
  std::map<std::string, std::int64_t> attributes;  // bundle::LaunchAttribute by name; replaces or adds
  std::optional<std::string> entry_point;
  bool empty() const;
};
void to_json(Json& j, const LaunchOverride& v);
void from_json(const Json& j, LaunchOverride& v);

struct VariantCode {
  std::string label = "baseline";
  std::string code;  // path of a code object; empty: the captured one
  LaunchOverride launch;
};
void to_json(Json& j, const VariantCode& v);
void from_json(const Json& j, VariantCode& v);

/// How a variant's outcome is compared with the captured kernel's.
struct Checks {
  validate::Level level = validate::Level::bitwise;
  /// Element types of the regions of each dispatch of the bundle, by its number.
  std::map<std::uint32_t, std::vector<validate::TypedRange>> types;
  std::optional<validate::Tolerance> tolerance;              // of every floating-point element
  std::map<std::uint32_t, validate::Tolerance> tolerances;   // of a region of the dispatch; goes before
  std::vector<std::string> checker;                          // custom: the user's program (docs/validation.md)
  double checker_limit_s = 60;                               // of one question to it
  std::map<std::uint32_t, std::string> references;           // region -> file of float64 values
  std::vector<LaunchOverride> unseen_launches;               // other launch sizes that both must agree on
  bool unseen_captures = true;                               // try the bundle's other dispatches
};
void to_json(Json& j, const Checks& v);
void from_json(const Json& j, Checks& v);

/// verb "compare": how it measures. What it may claim is measure/comparison.h's.
struct Comparing {
  double measure_s = 10;  // seconds for warm-up, placements and blocks; validation and the floor come on top. 0: only judged
  double margin = 0.005;  // differences up to this do not matter
  double alpha = 0.05;    // chance of a false claim; measure::Design::alpha
  bool identity = true;   // equal code and launch are `identical`, untimed. false only to test the measuring itself
  std::uint32_t placements = 0, blocks = 0;  // 0: as many as the time allows (blocks: of each placement)
  double letter_ms = 1;   // device time that the launches of one letter add up to, at least
  /// Of this device, driver and cache state, by duration class (floor_class()).
  struct Floor {
    double value = 0, budget_s = 0;
    std::string at;
  };
  std::map<std::string, Floor> floors;
};
void to_json(Json& j, const Comparing& v);
void from_json(const Json& j, Comparing& v);
void to_json(Json& j, const Comparing::Floor& v);
void from_json(const Json& j, Comparing::Floor& v);

/// verb "replay": variants has one. verb "compare": variants[0] is A (the reference), variants[1] is B; their
/// launches take turns in blocks of four letters, in one worker and the same layouts.
struct Request {
  std::string verb;            // "devices", "identify", "calibrate", "replay", "compare", "proof", "stop"
  std::string bundle;          // folder
  std::uint32_t dispatch = 0;  // which dispatch of the bundle
  /// Selector; empty: the bundle's own device, else the API's first. "identify" and "calibrate" have no bundle:
  /// "API:selector", an API's name, a selector of any API; empty: the first real GPU.
  std::string device;
  std::vector<VariantCode> variants;
  Conditions conditions;
  std::vector<std::string> counters;  // hardware counters to read in passes of their own; "default": a chosen set
  bool validate = true;    // compare each variant's written state with the baseline's
  Checks checks;
  std::uint32_t seed = 1;  // order of interleaving, random checks, mutated inputs
  Comparing comparing;     // verb "compare"
  double budget_s = 600;
};
void to_json(Json& j, const Request& v);
void from_json(const Json& j, Request& v);

struct RegionDifference {
  std::uint32_t region = 0;
  std::string name;
  std::uint64_t differing_bytes = 0, first_offset = 0;
  std::string expected, actual;  // up to 16 bytes at first_offset, hexadecimal
  // Of the first element, where its type is known.
  std::string type, index, expected_value, actual_value;
  std::uint64_t wrong = 0;      // bytes, or elements beyond the tolerance
  validate::ValueStats values;  // of the region's floating-point elements
  Json map;                     // where it differs: validate::DifferenceMap::json()
};

/// An input that a variant was judged on.
struct InputTried {
  std::string kind;  // "captured", "mutated", "launch", "capture"
  std::string what;  // "regions 0, 1 with floats changed (seed 7)"
  std::string result;  // "agrees", or how it differs
  bool agrees = true;
};

struct Validation {
  validate::Correctness correctness = validate::Correctness::not_verified;
  std::string reason;  // one sentence, always filled in
  std::string level = "bitwise";
  Json types = Json::array();       // of each region that is typed: {"region", "name", "type", "from"}
  Json tolerances = Json::array();  // numeric: {"region", "type", "absolute", "relative", "given"}
  validate::ValueStats values;      // of all floating-point elements, on all inputs that differed in bits
  std::vector<InputTried> inputs;
  std::uint32_t seed = 1;           // that makes the mutated inputs again
  std::uint64_t guarded_bytes = 0;  // redzones that were watched
  std::uint64_t checked_bytes = 0, differing_bytes = 0, masked_bytes = 0;
  std::uint32_t launches_checked = 0;
  std::vector<RegionDifference> differences;
  /// Klab's own bad variants: "no-op", "zeros", ... and whether this check caught each.
  std::map<std::string, bool> oracle;
  std::uint32_t inputs_tried = 1;  // captured inputs and mutated ones
};
void to_json(Json& j, const Validation& v);
void from_json(const Json& j, Validation& v);

enum class AddressMode { none, exact, relocated };
KLAB_JSON_ENUM(AddressMode, none, exact, relocated)

struct VariantAnswer {
  std::string label;
  Outcome outcome = Outcome::ok;
  std::optional<Error> error;
  std::vector<double> samples_ns;          // timed launches in run order, GPU nanoseconds
  std::vector<double> replay_averages_ns;  // mode repeats: one per replay
  std::uint64_t restored_bytes_per_iteration = 0;
  std::uint64_t written_bytes = 0;  // chunks that this variant was seen to write
  Json resources = Json::object();  // gpu::Resources, as JSON
  std::string code_hash;            // XXH3-128 of the code object
  /// {"values": {name: number}, "derived": {name: {"value", "unit", "from"}}, "missing": [name], "passes": n}
  Json counters;
  /// Launches back to back with nothing between them: {"per_s", "host_us" (of the host, each), "launches"}, or {"why"} it
  /// was not measured.
  Json throughput;
  Validation validation;
};
void to_json(Json& j, const VariantAnswer& v);
void from_json(const Json& j, VariantAnswer& v);

struct Answer {
  int protocol = kProtocolVersion;
  Outcome outcome = Outcome::ok;  // of the request as a whole
  std::optional<Error> error;
  bundle::DeviceIdentity device;
  Conditions asked, ran;  // mode honesty: what was really done
  std::vector<std::string>
      notes;  // what differs from the capture: device, memory kind, cache state not settable
  AddressMode address_mode = AddressMode::none;
  std::string address_by;             // "imported host memory"
  std::uint64_t rewritten_words = 0;  // relocated: pointers rewritten
  std::uint64_t captured_bytes = 0;
  std::vector<VariantAnswer> variants;
  /// verb "compare", when it was timed: measure::Comparison and how it was measured (docs/report.md).
  Json comparison;
  bundle::Proof proof;           // verb "proof"
  Json devices = Json::array();  // verb "devices": gpu::Listed per device, and per-API errors
  Json calibration;              // verb "calibrate": what calibrate/calibration.h reads
  double wall_ms = 0;
};
void to_json(Json& j, const Answer& v);
void from_json(const Json& j, Answer& v);

/// While it works a worker may send {"progress": "...", "done": n, "total": m, "waits": bool, "keeps": bool} before the answer.
struct Progress {
  std::string text;
  std::uint64_t done = 0, total = 0;
  bool waits = false;  // for the device: from here to the next progress no time of the budget passes
  bool keeps = false;  // from here on kStopSignal makes it answer with what it has
};

/// Blocking framing over a socket. Errors: worker_lost at end of stream, invalid_data (also over `max_bytes`), timeout.
Status send_message(int fd, const Json& message);
Result<Json> receive_message(int fd, int timeout_ms, std::size_t max_bytes = kMaxMessage);
/// The bytes of one message. Errors: cap_reached.
Result<std::string> frame_of(const Json& message);

}  // namespace klab::replay
